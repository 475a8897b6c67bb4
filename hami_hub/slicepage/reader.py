"""Showing a slice: its limits, what it holds, who in it holds how much, and what was refused."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO, TypeVar

from ..core.cards import CardUuid
from ..core.names import ENV_SLICE_DIR
from ..core.slices import CorePolicy, Priority
from ..core.units import Mib, Percent, mib_down, mib_up
from . import layout
from .life import owner_lives

# Where a slice is mounted into containers and systemd units; it outranks the environment.
MOUNTED_SLICE = Path("/run/hami/slice")


class PageError(ValueError):
    """A slice directory that is missing, damaged or of another version.  One plain sentence."""


@dataclass(frozen=True, slots=True)
class CardView:
    """One card as the slice has it.  Amounts in MiB, bytes rounded up."""

    uuid: CardUuid
    limit: Mib
    used: Mib
    peak: Mib
    cores: Percent
    policy: CorePolicy
    priority: Priority
    whole: bool
    refusals: int
    overshoots: int
    throttled_seconds: float  # launches waited for their turn, or for the cap
    used_seconds: float = 0.0  # card time used; 0 without a core share
    borrowed_seconds: float = 0.0  # of it, beyond the slice's own share
    lent_seconds: float = 0.0  # card time of the slice's share that neighbours used
    last_launch: float = 0.0  # when work was last sent to it, in CLOCK_MONOTONIC's seconds; 0: never, or no core share


@dataclass(frozen=True, slots=True)
class ProcessView:
    """One live process of the slice and what it holds of each card, in the order of `SliceView.cards`."""

    pid: int
    name: str
    used: tuple[Mib, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """One refused allocation; `holders` are the (pid, MiB) that held most."""

    time: datetime
    card: CardUuid
    pid: int
    call: str
    asked: Mib
    used: Mib
    limit: Mib
    holders: tuple[tuple[int, Mib], ...]


@dataclass(frozen=True, slots=True)
class SliceView:
    """All that a slice directory says at one moment.  `refusals` are the last few, oldest first."""

    name: str
    cards: tuple[CardView, ...]
    processes: tuple[ProcessView, ...]
    refusals: tuple[Refusal, ...]


def find_slice() -> Path | None:
    """The slice directory that this process is held to, or None outside a slice.

    The same order as the limiter's: what is mounted outranks `$HAMI_SLICE_DIR`.
    """
    if MOUNTED_SLICE.exists():
        return MOUNTED_SLICE
    named = os.environ.get(ENV_SLICE_DIR)
    return Path(named) if named else None


def read_slice(directory: Path, *, same_pid_namespace: bool = True) -> SliceView:
    """What the slice in `directory` has and does.

    Args:
        directory: a slice directory.
        same_pid_namespace: False when looking into a container from outside, where its PIDs mean nothing: then a slot
            that neither says in which /proc its PID counts nor holds its lock still counts.

    Raises:
        PageError: no slice there, or a damaged one.
    """
    limits = load_limits(directory)
    path = directory / layout.USAGE_FILE
    with _open_page(path) as file:
        usage = _parse(path, file.read(), layout.Usage, layout.USAGE_MAGIC)
        slots = [
            slot
            for index, slot in enumerate(usage.processes[: min(usage.process_high, layout.MAX_PROCESSES)])
            if slot.owner and owner_lives(slot, index, file.fileno(), same_pid_namespace=same_pid_namespace)
        ]
    count = limits.card_count
    return SliceView(
        name=limits.name.decode(errors="replace"),
        cards=tuple(_card(limits.cards[i], usage.cards[i], sum(_held(s, i) for s in slots)) for i in range(count)),
        processes=tuple(
            ProcessView(
                s.owner >> 32, s.comm.decode(errors="replace"), tuple(mib_up(_held(s, i)) for i in range(count))
            )
            for s in slots
        ),
        refusals=_refusals(limits, usage),
    )


_Page = TypeVar("_Page", layout.Limits, layout.Usage)


def load_limits(directory: Path) -> layout.Limits:
    """What a slice directory grants.

    Raises:
        PageError: no page, or one that no slice can have.
    """
    path = directory / layout.LIMITS_FILE
    with _open_page(path) as file:
        limits = _parse(path, file.read(), layout.Limits, layout.LIMITS_MAGIC)
    if limits.card_count > layout.MAX_CARDS:
        raise PageError(f"The slice page {path} is damaged: it lists {limits.card_count} cards.")
    try:
        for limit in limits.cards[: limits.card_count]:
            layout.PolicyCode(limit.policy), Priority(limit.priority)
    except ValueError as error:
        raise PageError(f"The slice page {path} is damaged: {error}.") from None
    return limits


def _open_page(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise PageError(f"There is no slice page {path}. Start the server again.") from None
    except OSError as error:
        raise PageError(f"The slice page {path} can't be read: {error.strerror}.") from None


def _parse(path: Path, content: bytes, page: type[_Page], magic: int) -> _Page:
    size = ctypes.sizeof(page)
    if len(content) != size:
        raise PageError(f"The slice page {path} is damaged: {len(content)} bytes instead of {size}.")
    loaded = page.from_buffer_copy(content)
    if loaded.magic != magic or loaded.size != size:
        raise PageError(f"The slice page {path} is damaged: it doesn't begin as a slice page does.")
    if loaded.version != layout.PAGE_VERSION:
        raise PageError(
            f"The slice page {path} has version {loaded.version}, this program reads {layout.PAGE_VERSION}."
        )
    return loaded


def _card(limit: layout.CardLimit, usage: layout.CardUsage, used: int) -> CardView:
    return CardView(
        uuid=CardUuid(limit.uuid.decode(errors="replace")),
        limit=mib_down(limit.vram),
        used=mib_up(used),
        peak=mib_up(max(usage.peak, used)),
        cores=Percent(limit.cores),
        policy=CorePolicy[layout.PolicyCode(limit.policy).name],
        priority=Priority(limit.priority),
        whole=bool(limit.flags & layout.CardFlag.WHOLE),
        refusals=usage.refusals,
        overshoots=usage.overshoots,
        throttled_seconds=usage.throttled_ns / 1e9,
        used_seconds=usage.used_ns / 1e9,
        borrowed_seconds=usage.borrowed_ns / 1e9,
        lent_seconds=usage.lent_ns / 1e9,
        last_launch=usage.last_launch_ns / 1e9,
    )


def _refusals(limits: layout.Limits, usage: layout.Usage) -> tuple[Refusal, ...]:
    # A record still being written has ticket 0.
    written = sorted((r for r in usage.refusals if r.ticket and r.card < limits.card_count), key=lambda r: r.ticket)
    return tuple(
        Refusal(
            time=datetime.fromtimestamp(r.time_ns / 1e9, tz=timezone.utc),
            card=CardUuid(limits.cards[r.card].uuid.decode(errors="replace")),
            pid=r.pid,
            call=r.call.decode(errors="replace"),
            asked=mib_up(r.asked),
            used=mib_up(r.used),
            limit=mib_down(r.limit),
            holders=tuple((h.pid, mib_up(h.bytes)) for h in r.holders if h.pid),
        )
        for r in written
    )


def _held(slot: layout.Process, card: int) -> int:
    return int(slot.held[card] + slot.overhead[card])
