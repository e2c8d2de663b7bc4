"use strict";
// What is shown comes from the keeper, escaped; this puts it into its place and sends what buttons and form ask for.
(() => {
  const PLACE = "fobs-jobs";
  const at = (id) => document.getElementById(id);
  const tell = (id, text) => { if (at(id).textContent !== text) at(id).textContent = text; };
  const rest = (ms) => new Promise((done) => setTimeout(done, ms));
  let secret = sessionStorage.getItem(PLACE) || "";

  // A header of our own, which no page of another origin can send.
  const ask = (path, options = {}) => fetch(path, {
    cache: "no-store", credentials: "omit", ...options,
    headers: { ...options.headers, ...(secret ? { Authorization: "Bearer " + secret } : {}) },
  });
  const why = async (answer) => {
    try { return (await answer.json()).detail || answer.statusText; } catch { return answer.statusText; }
  };

  // The address has a secret that is good once, behind '#', so that it reaches no server and no log.
  async function enter() {
    const printed = location.hash.slice(1);
    if (!printed) return;
    history.replaceState(null, "", location.pathname);
    const answer = await fetch("/page/session", {
      method: "POST", cache: "no-store", credentials: "omit", headers: { Authorization: "Bearer " + printed },
    });
    if (answer.ok) secret = (await answer.json()).secret;
    // Without a front, which exchanges it, it is a token of the keeper's own: what it opens is seen at once.
    else if (!secret || answer.status === 404) secret = printed;
    sessionStorage.setItem(PLACE, secret);
  }

  const parsed = (html) => {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    return holder.content.firstElementChild;
  };

  // Makes an element like another one and leaves in place what is the same: focus, readers and what was opened stay.
  function morph(old, fresh) {
    for (const name of old.getAttributeNames()) {
      if (!fresh.hasAttribute(name) && !(old.localName === "details" && name === "open")) old.removeAttribute(name);
    }
    for (const name of fresh.getAttributeNames()) {
      if (old.getAttribute(name) !== fresh.getAttribute(name)) old.setAttribute(name, fresh.getAttribute(name));
    }
    const next = [...fresh.childNodes];
    next.forEach((node, place) => {
      const now = old.childNodes[place];
      if (!now) old.append(node);
      else if (now.nodeType !== node.nodeType || now.nodeName !== node.nodeName
        || (now.dataset && now.dataset.act !== node.dataset.act)) now.replaceWith(node);
      else if (now.nodeType === Node.TEXT_NODE) { if (now.data !== node.data) now.data = node.data; }
      else morph(now, node);
    });
    while (old.childNodes.length > next.length) old.lastChild.remove();
  }

  // Where the focus goes when what had it is gone: to the same act of its job, else to its heading.
  function keepFocus(change) {
    const had = document.activeElement;
    const card = had && had.closest(".job");
    const act = had && had.dataset && had.dataset.act;
    change();
    if (!card || document.activeElement === had) return;
    const now = at(card.id);
    if (!now) return;
    (now.querySelector(`[data-act="${act}"]`) || now.querySelector("h3")).focus({ preventScroll: true });
  }

  function show({ lists, cards }) {
    const said = [];
    keepFocus(() => {
      for (const html of Object.values(cards)) {
        const fresh = parsed(html);
        const old = at(fresh.id);
        if (!old) { at("over").append(fresh); continue; }
        if (old.dataset.phase !== fresh.dataset.phase) {
          said.push(`job ${fresh.id.slice(4)}, ${fresh.dataset.title}: ${fresh.dataset.phase}`);
        }
        morph(old, fresh);
      }
      const shown = new Set();
      ["running", "waiting", "over"].forEach((name, place) => {
        lists[name].forEach((id, index) => {
          const card = at("job-" + id);
          if (!card) return;
          shown.add(card);
          if (at(name).children[index] !== card) at(name).insertBefore(card, at(name).children[index] || null);
        });
        tell(name + "-count", lists.counts[place]);
      });
      document.querySelectorAll(".job").forEach((card) => { if (!shown.has(card)) card.remove(); });
    });
    if (said.length) tell("said", said.slice(0, 3).join("; "));
  }

  // Events over fetch: an EventSource sends no header.
  async function listen() {
    const answer = await ask("/page/events", { headers: { Accept: "text/event-stream" } });
    if (!answer.ok) { const said = await why(answer); return { said, locked: answer.status === 401 }; }
    tell("link", "Live.");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = "";;) {
      const { done, value } = await reader.read();
      if (done) return { said: "The keeper of jobs has ended or begun anew." };
      text += value;
      for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
        const data = text.slice(0, end).split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5));
        if (data.length) show(JSON.parse(data.join("\n")));
      }
    }
  }

  async function follow() {
    for (let pause = 500; ; pause = Math.min(pause * 2, 10000)) {
      const begun = Date.now();
      let end;
      try { end = await listen(); } catch { end = { said: "Nothing answers." }; }
      if (Date.now() - begun > 10000) pause = 500;
      if (end.locked) { tell("link", "Closed."); tell("failed", end.said); return; }
      tell("link", `${end.said} Asking again.`);
      await rest(pause);
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-act]");
    if (!button) return;
    const { act, job } = button.dataset;
    tell("failed", "");
    button.setAttribute("aria-busy", "true");
    try {
      const answer = await ask(act === "why" ? `/page/why/${job}` : `/v1/jobs/${job}/${act}`, { method: "POST" });
      if (!answer.ok) tell("failed", await why(answer));
      else if (act === "why") location.assign((await answer.json()).address);
    } catch { tell("failed", "Nothing answers; try again."); }
    button.removeAttribute("aria-busy");
  });

  // One key for each form that is filled in: sent twice, it is one job.
  const fresh = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  let key = fresh();
  at("hand-in").addEventListener("input", () => { key = fresh(); });
  at("hand-in").addEventListener("submit", async (event) => {
    event.preventDefault();
    const form = event.target;
    const button = form.querySelector("button[type=submit]");
    tell("failed", "");
    tell("said", "Handing in.");
    button.disabled = true;
    try {
      const body = JSON.stringify({ ...Object.fromEntries(new FormData(form)), key: "page-" + key });
      const answer = await ask("/page/jobs", { method: "POST", headers: { "Content-Type": "application/json" }, body });
      if (answer.ok) {
        const { id, notes } = await answer.json();
        tell("said", `Job ${id} is handed in. ${notes}`);
        form.reset();
        key = fresh();
      } else { tell("said", ""); tell("failed", await why(answer)); }
    } catch { tell("said", ""); tell("failed", "Nothing answers; hand it in again: it is one job."); }
    button.disabled = false;
    at("field-words").focus();
  });

  enter().then(follow, () => tell("failed", "Nothing answers; open the address again."));
})();
