#!/usr/bin/env bash
# Makes the pictures of README and guide from a copy over the loopback: the page of `fobs explain --html` in headless
# Chromium, and what a terminal of 80 columns shows of `fobs cp` while it copies and at its end.
# The record of that copy stays beside them, and the picture has a sum of the page that it shows: a test draws the page
# of the record again, and fails once that is another one (`the_picture_of_the_page_is_current`).
#   scripts/pictures.sh FOBS      writes docs/figures/{explain.png,explain.jsonl,progress.svg}; look at them before you
#                                 commit them
set -Eeuo pipefail
cd "$(dirname "$0")/.."
fobs=$(realpath "${1:?the program}")
work=$(mktemp -d)
daemon=
finish() {
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
port=$((20000 + $$ % 10000))
export HOME=$work FOBS_SYSTEM_CONFIG=/dev/null
unset XDG_CONFIG_HOME XDG_STATE_HOME
mkdir "$work/served"
"$fobs" keygen 2>/dev/null | sed 's/^/read-write /' >"$work/keys"
"$fobs" serve --listen "127.0.0.1:$port" --root "$work/served" --authorized-keys "$work/keys" 2>/dev/null &
daemon=$!
head -c 60000000 /dev/urandom >"$work/big.tar"
head -c 30000000 "$work/big.tar" >"$work/run42.h5"
for _ in $(seq 50); do
    (cd "$work" && "$fobs" cp -q --rate 100Mbit --trace trace run42.h5 "fobs://127.0.0.1:$port/") 2>/dev/null && break
    sleep 0.2
done

# A terminal: what is shown after about half of the copy, and what is there at its end.
(cd "$work" && FOBS=$fobs PORT=$port python3 - >progress.svg) <<'PYTHON'
import fcntl, html, os, pty, re, struct, termios

COLUMNS, LETTER, LINE, NO_BREAK = 80, 8.4, 20, "\u00a0"
command = ["cp", "--rate", "100Mbit", "big.tar", f"fobs://127.0.0.1:{os.environ['PORT']}/again.tar"]
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    os.environ["TERM"] = "xterm"
    os.execv(os.environ["FOBS"], ["fobs", *command])
said = b""
while True:
    try:
        part = os.read(terminal, 65536)
    except OSError:
        break
    if not part:
        break
    said += part
os.waitpid(child, 0)
plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said.decode())
states = [state.rstrip() for state in re.split(r"[\r\n]+", plain) if state.strip()]
halfway = min((s for s in states if "%" in s and "ETA" in s), key=lambda s: abs(int(re.search(r"(\d+)%", s)[1]) - 60))
last = [s for s in states if s.startswith("fobs: ")][-1]
shown = ["$ fobs cp big.tar fobs://host/", halfway, *(last[at:at + COLUMNS] for at in range(0, len(last), COLUMNS))]
width, height = round(COLUMNS * LETTER + 32), LINE * len(shown) + 28
print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">')
print(f'<rect width="{width}" height="{height}" rx="6" fill="#1e1e1e"/>')
print('<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" fill="#d4d4d4">')
for number, line in enumerate(shown):
    text = html.escape(line).replace(" ", NO_BREAK)
    place = f'x="16" y="{30 + LINE * number}" textLength="{round(len(line) * LETTER)}"'
    print(f'<text {place} lengthAdjust="spacingAndGlyphs">{text}</text>')
print("</g></svg>")
PYTHON
cp "$work/progress.svg" docs/figures/progress.svg

# The page, of a record without the name and port of this machine.
sed "1s|127.0.0.1:$port|host|; 1s|\"host\":\"[^\"]*\"|\"host\":\"desk\"|" "$work/trace" >"$work/explain.jsonl"
"$fobs" explain --html "$work/page.html" "$work/explain.jsonl" >/dev/null
command -v chromium >/dev/null || { echo "skipped: the page needs chromium" >&2 && exit 0; }
chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --user-data-dir="$work/browser" --hide-scrollbars \
    --blink-settings=preferredColorScheme=1 --window-size=1000,560 --screenshot="$work/page.png" \
    "file://$work/page.html" 2>"$work/said" || { cat "$work/said" >&2 && exit 1; }
cp "$work/explain.jsonl" docs/figures/explain.jsonl
python3 - "$work/page.html" "$work/page.png" docs/figures/explain.png <<'PYTHON'
import re, struct, sys, zlib

page, shot, picture = sys.argv[1:]
text = open(page).read()
# Dates are those of where it is drawn.
for part in (r'<p class="facts">.*?</p>', r"<footer>.*?</footer>"):
    text = re.sub(part, "", text, flags=re.S)
total = 0xCBF29CE484222325  # FNV-1a
for byte in text.encode():
    total = (total ^ byte) * 0x100000001B3 % 2**64
chunk = b"tEXt" + b"page\0" + f"{total:016x}".encode()
png = open(shot, "rb").read()
# Behind the header, which has 13 bytes.
at = 8 + 12 + 13
mark = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
open(picture, "wb").write(png[:at] + mark + png[at:])
PYTHON
ls -l docs/figures
