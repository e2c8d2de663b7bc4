"""Writes the metadata of the Python package beside it, so that its entry points are found without a wheel.

Arguments: pyproject.toml, the directory of packages.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
directory = Path(sys.argv[2]) / "fobs-0.dist-info"
directory.mkdir()
(directory / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
lines = []
for group, entries in project["entry-points"].items():
    lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
(directory / "entry_points.txt").write_text("\n".join(lines) + "\n")
