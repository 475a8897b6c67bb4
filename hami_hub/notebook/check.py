"""Running a validation notebook and comparing what it prints with the outputs stored in it (by nbval).

Used by the tests and by `hami-hub prove`, in a process whose environment says which card or hub the notebook meets.
`record` writes down what was printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NOTEBOOKS = ("01-oom-at-limit.ipynb", "02-shared-uuid.ipynb", "03-whole-card.ipynb")
SANITIZE = "nbval-sanitize.cfg"
_CELL_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Checked:
    """A notebook that was run.

    Attributes:
        passed: every cell ran and printed what is stored.
        log: pytest's own output, with the differences.
        record: the cells and what they printed, as Markdown.
    """

    passed: bool
    log: str
    record: str


def check_notebook(notebook: Path, *, environment: Mapping[str, str], scratch: Path, seconds: float) -> Checked:
    """Run `notebook` in a kernel of this Python and compare.

    Args:
        notebook: stays as it is; the rules of comparison lie beside it.
        environment: all of the environment that the kernel gets.
        scratch: a folder for what is written meanwhile.
        seconds: for all of it; longer is a failure.
    """
    record = scratch / f"{notebook.stem}.md"
    kept = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    kept["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [*_pytest(notebook), f"--record-cells={record}"]
    try:
        done = subprocess.run(
            command, env=kept, cwd=scratch, timeout=seconds, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        passed, log = done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired as error:
        passed, log = False, f"{_text(error.stdout)}\nNot done after {seconds:g} s."
    return Checked(passed, log, record.read_text() if record.is_file() else "")


def _pytest(notebook: Path) -> list[str]:
    # No configuration, conftest or plugin of wherever this runs.
    return [
        sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(notebook.parent), "-p", "no:cacheprovider",
        "-p", "nbval.plugin", "-p", "hami_hub.notebook.record", "--nbval", "--nbval-current-env",
        f"--nbval-cell-timeout={_CELL_SECONDS}", f"--nbval-sanitize-with={notebook.with_name(SANITIZE)}", str(notebook),
    ]  # fmt: skip


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""
