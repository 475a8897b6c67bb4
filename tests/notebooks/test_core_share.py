"""Notebook 04 on the simulated card: two slices share it, and the plot's figures say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from hami_hub.cli.demo.folder import notebooks_folder
from hami_hub.cli.prove.bench import Bench
from hami_hub.notebook.check import check_notebook

NOTEBOOK = "04-core-share.ipynb"
pytestmark = pytest.mark.timeout(300)


def test_the_notebook_holds(bench: Bench, tmp_path: Path) -> None:
    checked = check_notebook(
        notebooks_folder() / NOTEBOOK, environment=bench.environment, scratch=tmp_path, seconds=240
    )
    assert checked.passed, checked.log


def test_inside_a_slice_it_says_that_it_is_for_the_machine(bench: Bench, tmp_path: Path) -> None:
    inside = bench.slice("inside", vram=1000)
    checked = check_notebook(notebooks_folder() / NOTEBOOK, environment=inside, scratch=tmp_path, seconds=240)
    assert not checked.passed
    assert "This is inside a slice, where no others can be made" in checked.log
