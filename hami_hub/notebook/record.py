"""A pytest plugin beside nbval: writes the cells and what they printed as Markdown, as they are run.

nbval compares and forgets; a report needs what it compared.  Loaded by `check` with `-p`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-cells", metavar="PATH", help="write the notebook's cells and their outputs here")


def pytest_runtest_teardown(item: pytest.Item) -> None:
    path = item.config.getoption("--record-cells")
    cell = getattr(item, "cell", None)
    if path and cell is not None:
        with Path(path).open("a") as file:
            file.write(cell_markdown(cell.source, getattr(item, "test_outputs", None) or ()))


def cell_markdown(source: str, outputs: Iterable[Mapping[str, Any]]) -> str:
    """A cell and its outputs as two blocks of code."""
    printed = "\n".join(_text(output).rstrip("\n") for output in outputs)
    shown = _COLOURS.sub("", printed).strip("\n")
    return _block("python", source) + (_block("text", shown) if shown else "")


def _text(output: Mapping[str, Any]) -> str:
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}"
    if "text" in output:
        return str(output["text"])
    return str(output.get("data", {}).get("text/plain", ""))


def _block(language: str, text: str) -> str:
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text}\n{fence}\n\n"
