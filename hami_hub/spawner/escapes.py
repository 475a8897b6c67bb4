"""Looks from outside for processes that got around the limiter, tells the log, and ends them where an admin says so.

`core.escapes` decides what an escape is, `belonging` whose a process is.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from ..card_processes import read_card_processes
from ..cards import NoCardsError
from ..core.escapes import Escape, EscapeWatch, ProcessUse, SliceUse
from ..core.slices import SliceId
from ..slicepage import PageError, read_slice
from ..slicepage.uses import uses_of
from . import processes
from .belonging import Belonging

INTERVAL = 5.0  # seconds between looks; an escape is told after three of them


def look(directories: Iterable[Path]) -> tuple[list[ProcessUse], list[SliceUse]]:
    """What the driver and the pages say at this moment.  Slow: asks NVML and reads /proc.

    Raises:
        NoCardsError: NVML can't be asked.
    """
    names: dict[Path, SliceId] = {}
    pages: list[SliceUse] = []
    for directory in directories:
        try:
            view = read_slice(directory)
        except PageError:
            continue  # its processes can't use a card either
        # Two may bear the same name while one of them ends.
        name = view.name if view.name and view.name not in names.values() else directory.name
        names[directory] = SliceId(name)
        pages += uses_of(names[directory], view)
    belonging = Belonging(names)
    uses = [
        ProcessUse(pid, uuid, used, names[home])
        for uuid, pid, used in read_card_processes()
        if (home := belonging.slice_of(pid)) is not None
    ]
    return uses, pages


class EscapeGuard:
    """Looks every few seconds.

    Args:
        directories: gives the slice directories there are.
        end: whether to end the processes that are found, by SIGKILL.
        log: for admins.
        interval: seconds.
    """

    def __init__(
        self,
        directories: Callable[[], Iterable[Path]],
        *,
        end: bool,
        log: logging.Logger,
        interval: float = INTERVAL,
    ) -> None:
        self._directories = directories
        self._end = end
        self._log = log
        self._interval = interval
        self._watch = EscapeWatch()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            await asyncio.to_thread(self.look_once)

    def look_once(self) -> tuple[Escape, ...]:
        """One look: what it told."""
        directories = tuple(self._directories())
        if not directories:
            return ()
        try:
            told = self._watch.see(*look(directories))
        except NoCardsError:
            return ()
        for escape in told:
            self._log.warning("%s%s", escape.text, " They are ended." if self._end else "")
            if self._end:
                for pid, _ in escape.processes:
                    process = processes.mark(pid)
                    if process is not None:
                        processes.send(process, signal.SIGKILL)
        return told
