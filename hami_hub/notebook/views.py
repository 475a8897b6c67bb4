"""The card's memory asked of everybody who could know: CUDA, NVML, `hami-hub smi` and the slice page."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from .. import cards
from ..core.cards import CardUuid
from ..core.units import Mib
from ..slicepage import SliceView
from .backend import Backend
from .errors import NotebookError
from .words import MemoryView

_QUERY = ("--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits")
_SMI_SECONDS = 30


def memory_views(backend: Backend, view: SliceView | None) -> Sequence[MemoryView]:
    """One view per source.  A source that fails says so in its line and takes nothing from the others."""
    total = backend.total_memory()
    return (
        MemoryView("CUDA", total, Mib(total - backend.free_memory())),
        _nvml(CardUuid(backend.card_uuid())),
        _smi(),
        _page(view),
    )


def _nvml(uuid: CardUuid) -> MemoryView:
    try:
        use = cards.memory_use(uuid)
    except cards.NoCardsError as error:
        return MemoryView("NVML", problem=str(error))
    if use is None:
        return MemoryView("NVML", problem=f"NVML doesn't know the card {uuid}.")
    return MemoryView("NVML", use.total, use.used)


def smi(*options: str) -> str:
    """What `hami-hub smi` prints in a process of its own.

    Raises:
        NotebookError: it failed; with its own last line.
    """
    command = [sys.executable, "-m", "hami_hub.cli", "smi", *options]
    try:
        # in "/", so that no file of the notebook's folder is taken for a module
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=_SMI_SECONDS, check=True)
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip() or error.stdout.strip() or "no reason given").splitlines()[-1]
        raise NotebookError(f"`hami-hub smi` failed: {last}") from None
    except subprocess.TimeoutExpired:
        raise NotebookError(f"`hami-hub smi` gave no answer in {_SMI_SECONDS} s.") from None
    return done.stdout.rstrip()


def _smi() -> MemoryView:
    try:
        total, used = smi(*_QUERY).splitlines()[0].split(",")
        return MemoryView("hami-hub smi", Mib(int(total)), Mib(int(used)))
    except (NotebookError, ValueError, IndexError) as error:
        return MemoryView("hami-hub smi", problem=str(error))


def _page(view: SliceView | None) -> MemoryView:
    if view is None or not view.cards:
        return MemoryView("slice page", problem="This server is not in a slice.")
    return MemoryView("slice page", view.cards[0].limit, view.cards[0].used)
