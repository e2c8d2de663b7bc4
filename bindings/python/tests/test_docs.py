"""What the documents show is what happens."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import fobs

from .conftest import Served

DOCUMENT = Path(__file__).parents[3] / "docs/python.md"


def test_the_document_runs(served: Served) -> None:
    pytest.importorskip("numpy")
    served.authorize("read-write,pipe-names")
    names = {"url": served.url, "keys": served.keys}
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    outcome = doctest.testfile(str(DOCUMENT), module_relative=False, globs=names, optionflags=flags)
    assert outcome.attempted > 10 and outcome.failed == 0


def test_the_package_docstring_runs(served: Served) -> None:
    names = {"url": served.url, "keys": served.keys}
    assert doctest.testmod(fobs, extraglobs=names).failed == 0
