"""`hami-hub smi --escapes`: which processes of the hub's slices got around the limiter.

For whoever runs the machine; what a slice shows of itself is the other modules'.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from ...core.escapes import LOOKS_BEFORE_TELLING, Escape, EscapeWatch
from ...spawner.escapes import look
from ...spawner.slice_root import default_slice_root

_PAUSE_SECONDS = 0.3


def render_escapes(folder: Path | None) -> str:
    """One sentence an escape, after a few looks, so that a moment's difference is none.

    Args:
        folder: the hub's folder of slice directories; None: the usual one.

    Raises:
        ClickException: the folder can't be read.
        NoCardsError: NVML can't be asked.
    """
    directories = _directories(folder or default_slice_root())
    watch = EscapeWatch()
    told: tuple[Escape, ...] = ()
    for number in range(LOOKS_BEFORE_TELLING):
        if number:
            time.sleep(_PAUSE_SECONDS)
        told = watch.see(*look(directories))
    if told:
        return "\n".join(escape.text for escape in told)
    return f"{len(directories)} slices: no process holds more than its slice answers for."


def _directories(folder: Path) -> Sequence[Path]:
    try:
        return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise click.ClickException(
            f"The slices in {folder} can't be read: {error.strerror}. "
            "Run it as the hub's user, or name the hub's folder with --slices."
        ) from None
