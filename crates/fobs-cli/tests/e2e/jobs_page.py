"""What a person does with the page of jobs, in headless Chromium, and what another page of that browser may not.

    jobs_page.py FOBS WORK [PICTURES]

WORK has `large`, a file that takes a while at 8 Mbit/s. Ends with 0, or with a sentence and 1. The browser is driven
over its DevTools protocol on two pipes, so nothing beside it and Python is needed.
"""

import base64
import contextlib
import http.server
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

PATIENCE_S = 90
HOSTILE = '<img src=x onerror="window.evil=1"><script>window.evil=1</script>'
LONG = "a-very-long-name-without-any-space-" * 5


def fail(why):
    raise SystemExit(f"jobs_page: {why}")


def until(what, is_so):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        time.sleep(0.05)
    fail(f"not in {PATIENCE_S} s: {what}")


class Browser:
    """Chromium with one pipe to it and one from it; messages end with NUL."""

    def __init__(self, work, *options):
        to_it, self.out = os.pipe()
        self.back, from_it = os.pipe()
        words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 f"--user-data-dir={work}/browser", "--remote-debugging-pipe", *options, "about:blank"]

        def place():
            # The protocol's own numbers, 3 and 4.
            os.dup2(to_it, 13), os.dup2(from_it, 14), os.dup2(13, 3), os.dup2(14, 4)

        self.process = subprocess.Popen(words, close_fds=False, preexec_fn=place, stdout=subprocess.DEVNULL,
                                        stderr=open(f"{work}/chromium.log", "wb"))
        os.close(to_it), os.close(from_it)
        self.rest, self.number, self.answers, self.said = b"", 0, {}, []

    def read(self, seconds):
        if not select.select([self.back], [], [], seconds)[0]:
            return
        part = os.read(self.back, 1 << 20)
        if not part:
            fail("the browser has ended")
        *whole, self.rest = (self.rest + part).split(b"\0")
        for message in map(json.loads, whole):
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.said.append(message)

    def call(self, method, session=None, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        number, end = self.number, time.monotonic() + PATIENCE_S
        while number not in self.answers:
            self.read(0.1)
            if time.monotonic() > end:
                fail(f"the browser does not answer {method}")
        answer = self.answers.pop(number)
        if "error" in answer:
            fail(f"{method}: {answer['error']}")
        return answer["result"]


class Tab:
    def __init__(self, browser):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def go(self, address):
        self.call("Page.navigate", url=address)

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            return None
        return result["result"].get("value")

    def until(self, what, script):
        return until(what, lambda: self.run(script))

    def click(self, selector):
        self.until(f"{selector} is there", f"!!document.querySelector({selector!r})")
        place = self.run(f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center'}});"
                         "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ["mousePressed", "mouseReleased"]:
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def click_until(self, selector, what, script):
        """As a person does whose button has moved away below the mouse: once more."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if self.run(f"!!document.querySelector({selector!r})"):
                self.click(selector)
            for _ in range(60):
                if self.run(script):
                    return
                time.sleep(0.05)
        fail(f"not in {PATIENCE_S} s: {what}")

    def press(self, key, code, text=""):
        for kind in ["keyDown", "keyUp"]:
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                      text=text if kind == "keyDown" else "")

    def tab_to(self, what, script):
        """Presses Tab until the element that has the focus is the one."""
        for _ in range(60):
            if self.run(script):
                return
            self.press("Tab", 9)
        fail(f"the key Tab does not reach {what}")

    def complaints(self):
        """Errors of scripts, and what the page's policy has refused."""
        mine = [m for m in self.browser.said if m.get("sessionId") == self.session]
        thrown = [m for m in mine if m["method"] == "Runtime.exceptionThrown"]
        logged = [m for m in mine if m["method"] == "Log.entryAdded" and m["params"]["entry"]["level"] == "error"]
        return [m["params"] for m in thrown + logged]


def end_keeper():
    """The one that was started on demand: with a job that waits it would stay."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        with open(os.path.expanduser("~/.local/state/fobs/jobs/jobs.lock"), encoding="utf-8") as note:
            os.kill(int(note.read().split()[1]), signal.SIGTERM)


def fobs(program, work, *words):
    ran = subprocess.run([program, *words], cwd=work, capture_output=True, text=True, timeout=PATIENCE_S)
    if ran.returncode:
        fail(f"fobs {' '.join(words)}: {ran.stderr}")
    return ran.stdout


def hand_in(tab):
    """By keyboard alone."""
    tab.tab_to("the form", "document.activeElement.localName === 'summary'")
    tab.press("Enter", 13, "\r")
    tab.tab_to("the command", "document.activeElement.id === 'field-words'")
    tab.call("Input.insertText", text="cp --rate 8Mbit large copy")
    tab.tab_to("the directory", "document.activeElement.id === 'field-directory'")
    tab.call("Input.insertText", text=os.getcwd())
    tab.tab_to("the name", "document.activeElement.id === 'field-name'")
    tab.call("Input.insertText", text="by hand")
    tab.press("Enter", 13, "\r")
    said = tab.until("it is said that it is handed in", "/Job \\d+ is handed in/.exec(document.body.innerText)?.[0]")
    return said.split()[1]


def attack(browser, place, job, program, work):
    """Another port of this host, and a name that was made to lead here: a page there gets nothing and changes nothing."""
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>elsewhere</title>")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tab = Tab(browser)
    tab.go(f"http://127.0.0.1:{server.server_port}/")
    tab.until("the other page", "document.title === 'elsewhere'")
    tried = tab.run(f"""(async () => {{
        const base = {place!r}, got = [];
        const change = base + 'v1/jobs/{job}/cancel';
        for (const options of [{{}}, {{mode: 'no-cors'}}, {{credentials: 'include'}}]) {{
            try {{
                const answer = await fetch(change, {{method: 'POST', ...options}});
                if (answer.ok) got.push('changed');
            }} catch {{ }}
            try {{ const answer = await fetch(base + 'v1/jobs', options); if (answer.ok) got.push('read'); }} catch {{ }}
            try {{ const answer = await fetch(base, options); if (answer.ok) got.push('document'); }} catch {{ }}
        }}
        const form = document.createElement('form');
        Object.assign(form, {{method: 'post', action: change, target: 'frame'}});
        const frame = document.createElement('iframe');
        frame.name = 'frame';
        document.body.append(frame, form);
        form.submit();
        await new Promise((done) => setTimeout(done, 500));
        frame.src = base;
        await new Promise((done) => setTimeout(done, 500));
        try {{ if (frame.contentDocument?.title.includes('Jobs')) got.push('framed'); }} catch {{ }}
        return got.join(' ') || 'nothing';
    }})()""")
    if tried != "nothing":
        fail(f"a page of another port got: {tried}")
    port = place.rstrip("/").rsplit(":", 1)[1]
    tab.go(f"http://attacker.example:{port}/")
    tab.until("the other name is refused", "document.body?.innerText.includes('not the host that was asked for')")
    if json.loads(fobs(program, work, "jobs", "show", job, "--json"))["standing"]["phase"] != "running":
        fail("another page has changed a job")
    server.shutdown()


def pictures(tab, folder, name):
    """At a telephone's and a screen's width, light and dark: nothing is wider than the window."""
    # What is in the background is not drawn.
    tab.call("Page.bringToFront")
    for width, height in [(390, 844), (1440, 900)]:
        tab.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                 mobile=width < 500)
        for scheme in ["light", "dark"]:
            tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            wide = tab.run("document.documentElement.scrollWidth - window.innerWidth")
            if wide > 0:
                fail(f"{name} is {wide} px wider than a window of {width} px")
            if folder:
                shot = tab.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
                with open(f"{folder}/{name}-{width}-{scheme}.png", "wb") as picture:
                    picture.write(base64.b64decode(shot["data"]))


def readable(tab):
    """What a screen reader is given: every control has a name of its own, every list and list's heading is there."""
    tree = tab.call("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in tree:
        if not node.get("ignored"):
            roles.setdefault(node["role"]["value"], []).append(node.get("name", {}).get("value", ""))
    buttons = roles.get("button", [])
    if not buttons or "" in buttons or len(buttons) != len(set(buttons)):
        fail(f"buttons are not told apart by their names: {buttons}")
    if "" in roles.get("textbox", []) + roles.get("progressbar", []):
        fail(f"a field or a progress has no name: {roles}")
    for heading in ["Jobs", "Running", "Waiting", "Over"]:
        if not any(name.startswith(heading) for name in roles.get("heading", [])):
            fail(f"no heading {heading}: {roles.get('heading')}")


def play(program, work, folder, browser, place):
    tab = Tab(browser)
    tab.go(place)
    tab.until("the page is live", "document.getElementById('link').textContent === 'Live.'")
    if tab.run("location.hash"):
        fail("the secret stays in the address")
    fobs(program, work, "submit", "--name", HOSTILE, "--at", "12h", "cp", "large", LONG)
    tab.until("its name is text", f"document.getElementById('waiting').innerText.includes({HOSTILE!r})")
    job = hand_in(tab)
    card = f"#job-{job}"
    tab.until("it runs", f"document.querySelector('#running {card}') !== null")
    tab.until("its rate is drawn", f"document.querySelector('{card} svg .curve')?.getAttribute('d').includes('L')")
    tab.until("it moves", f"document.querySelector('{card} progress')?.value > 0")
    tab.until("its limit is named", f"document.querySelector('{card} .limited')?.textContent.includes('limit')")
    readable(tab)
    pictures(tab, folder, "running")
    attack(browser, place.split("#")[0], job, program, work)
    tab.click_until(f"{card} [data-act=pause]", "it is paused",
                    f"document.querySelector('#waiting {card}')?.dataset.phase === 'paused'")
    if not tab.run(f"document.querySelector('{card}').contains(document.activeElement)"):
        fail("the focus has left the job with its button")
    tab.until("it is told", f"document.getElementById('said').textContent.includes('job {job}, by hand: paused')")
    tab.until("it can be explained", f"document.querySelector('{card} [data-act=why]') !== null")
    tab.click_until(f"{card} [data-act=why]", "the explanation", "document.body?.innerText.includes('Where the time went')")
    pictures(tab, folder, "why")
    tab.run("history.back()")
    tab.until("it is live again", "document.getElementById('link')?.textContent === 'Live.'")
    tab.click_until(f"{card} [data-act=resume]", "it goes on", f"document.querySelector('#running {card}') !== null")
    tab.click_until(f"{card} [data-act=cancel]", "it is over",
                    f"document.querySelector('#over {card}')?.dataset.phase === 'cancelled'")
    tab.click("#new > summary")
    pictures(tab, folder, "over")
    if tab.run("window.evil"):
        fail("a name of a job has run as a script")
    complaints = tab.complaints()
    if complaints:
        fail(f"the page complains: {complaints}")


def main():
    program, work, *rest = sys.argv[1:]
    os.chdir(work)
    page = subprocess.Popen([program, "jobs", "page"], stdout=subprocess.PIPE, text=True)
    browser = Browser(work, "--host-resolver-rules=MAP attacker.example 127.0.0.1")
    try:
        place = page.stdout.readline().strip()
        # What is printed later would fill the pipe at last; there are two lines of it.
        play(program, work, rest[0] if rest else None, browser, place)
    finally:
        for process in [browser.process, page]:
            process.terminate()
        end_keeper()
        for process in [browser.process, page]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
    if page.returncode != 0:
        fail(f"fobs jobs page has ended with {page.returncode}")


main()
