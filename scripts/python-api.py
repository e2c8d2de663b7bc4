"""Writes the table of the Python API into a document, from the package's own signatures, or checks it.

    python-api.py [--check] docs/python.md

The table stands between the two marks; the package must be importable.
"""

import inspect
import re
import sys
from pathlib import Path

import fobs
import fobs.fsspec
import fobs.jobs
import fobs.progress

BEGIN, END = "<!-- api: written by scripts/python-api.py -->\n", "<!-- api end -->\n"


def first_sentence(thing: object) -> str:
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    text = re.sub(r":\w+:`([^`]*)`", r"`\1`", text).replace("``", "`")
    return text.replace("|", "\\|")


def signature(thing: object) -> str:
    try:
        shown = inspect.signature(thing)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    parameters = [p for p in shown.parameters.values() if p.name not in ("self", "cls")]
    # Annotations are kept as text.
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(shown.replace(parameters=parameters)))
    return text.replace("|", "\\|")


def members(kind: type) -> list[tuple[str, object]]:
    return [(name, value) for name, value in vars(kind).items() if not name.startswith("_")]


def rows() -> list[str]:
    lines = ["| name | what it is |", "|---|---|"]
    for name in fobs.__all__:
        thing = getattr(fobs, name)
        if not inspect.isclass(thing):
            if callable(thing):
                lines.append(f"| `fobs.{name}{signature(thing)}` | {first_sentence(thing)} |")
            continue
        if issubclass(thing, fobs.Error):
            bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not fobs.Error)
            code = f"exit code {thing.exit_code}" + (f"; also {bases}" if bases and thing is not fobs.Error else "")
            lines.append(f"| `fobs.{name}` | {first_sentence(thing)} ({code}) |")
            continue
        lines.append(f"| `fobs.{name}` | {first_sentence(thing)} |")
        for member, value in members(thing):
            inner = value.__func__ if isinstance(value, classmethod) else value
            if isinstance(inner, property):
                lines.append(f"| `{name}.{member}` | {first_sentence(inner)} |")
            elif inspect.isfunction(inner):
                lines.append(f"| `{name}.{member}{signature(inner)}` | {first_sentence(inner)} |")
    for name in sorted(set(fobs.jobs.__all__) - {"SubmitOptions"}):
        thing = getattr(fobs.jobs, name)
        shown = "" if inspect.isclass(thing) else signature(thing)
        lines.append(f"| `fobs.jobs.{name}{shown}` | {first_sentence(thing)} |")
        for member, value in members(thing) if inspect.isclass(thing) else []:
            shown = signature(value) if inspect.isfunction(value) else ""
            lines.append(f"| `jobs.{thing.__name__}.{member}{shown}` | {first_sentence(value)} |")
    for thing in (fobs.fsspec.FobsFileSystem, fobs.fsspec.FobsSshFileSystem, fobs.progress.Tqdm, fobs.progress.Rich):
        lines.append(f"| `{thing.__module__}.{thing.__name__}` | {first_sentence(thing)} |")
    return lines


def main() -> int:
    check, path = "--check" in sys.argv, Path(sys.argv[-1])
    text = path.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    made = before + BEGIN + "\n".join(rows()) + "\n" + END + after
    if check:
        if made != text:
            print(f"{path} has another table of the API: run python scripts/python-api.py {path}")
            return 1
        return 0
    path.write_text(made)
    return 0


sys.exit(main())
