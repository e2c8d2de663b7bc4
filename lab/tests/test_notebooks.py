"""Every notebook of lab/notebooks runs from its first cell to its last, without an error, in a kernel of its own.

Needs fobs-lab (named in FOBS_LAB), nbclient, ipykernel and matplotlib; scripts/test-bindings.sh runs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))
# How long a cell may take, in seconds: the simulator may be a build for debugging, and the machine busy.
CELL_WAIT = 600


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebooks_run_and_are_kept_without_outputs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert outputs(notebook) == []
    # The kernel of this environment, whatever kernels the user has.
    place = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=CELL_WAIT, kernel_name="python3", resources=place).execute()
    drawn = [output for output in outputs(notebook) if "image/png" in output.get("data", {})]
    figures = sum(cell.cell_type == "code" and cell.source.endswith(";") for cell in notebook.cells)
    assert len(drawn) == figures > 0


def test_controllers_notebook_plots_each_flow(tmp_path: Path) -> None:
    """The same functions again: a line of each flow in each panel, and a queue that holds something."""
    notebook = nbformat.read(NOTEBOOKS[0].with_name("controllers.ipynb"), as_version=4)
    names: dict[str, Any] = {}
    matplotlib.use("agg")
    for cell in notebook.cells:
        if cell.cell_type == "code" and "CONTROLLERS" not in cell.source:
            exec(cell.source, names)
    run = names["run"]
    axes = names["plot"](run).axes
    assert [len(axis.lines) for axis in axes] == [2, 2, 2]
    assert all(max(line.get_ydata()) > 0 for axis in axes for line in axis.lines)
    assert names["play"](names["beside_cubic"]("auto")) == run
    with pytest.raises(RuntimeError, match='there is no "renou"; there are auto'):
        names["play"](names["beside_cubic"]("renou"))
