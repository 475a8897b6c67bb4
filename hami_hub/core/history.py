"""What became of each attempt to start a server, and what can be read from many of them.

Pure: `hami_hub.journal` keeps them, the service and `hami-hub usage` show them, `dry_run` judges them again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from .cards import WHOLE_CORES
from .quota import Charge
from .slices import SliceId
from .spreadsheet import to_csv
from .units import MIB_PER_GIB, Mib

SECONDS_PER_HOUR = 3600
_MIB_SECONDS_PER_GIB_HOUR = MIB_PER_GIB * SECONDS_PER_HOUR


class StartState(str, Enum):
    """How far a start has come, or how it ended."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    REFUSED = "refused"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def open(self) -> bool:
        """Whether more will become of it."""
        return self in (StartState.WAITING, StartState.STARTING, StartState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One attempt to start a server, with or without a GPU.

    Attributes:
        id: unique, kept in the spawner's state while the server runs.
        group: who pays; "" is the default quota.
        vram, cores: MiB and percent over all its cards.
        asked_at, started_at, ended_at, until: Unix time; None: not yet.  It has its slice from `started_at` until
            `ended_at`; `until` is the end of its lifetime.
        reason: label of a refusal or failure, `hami-…`.
        words: why it waits, or was refused or failed, as the person read it, in English; empty otherwise.
        position: in line, from 1; 0: not in line.
        placed: UUIDs of the cards.
        pod: "namespace/pod" where its server is one.
    """

    id: str
    user: str
    server: str
    group: str
    profile: str
    cards: int
    vram: Mib
    cores: int
    asked_at: float
    state: StartState
    reason: str = ""
    words: str = ""
    position: int = 0
    placed: tuple[str, ...] = ()
    pod: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    until: float | None = None

    @property
    def server_of(self) -> str:
        """The slice's name."""
        return f"{self.user}/{self.server}"


DEFAULT_QUOTA = "(default quota)"


def charge_of(start: Start) -> Charge:
    """What `start` is charged while it is open."""
    return Charge(
        holder=SliceId(start.server_of),
        user=start.user,
        group=start.group,
        profile=start.profile,
        cards=start.cards,
        vram=start.vram,
        cores=start.cores,
        since=start.asked_at,
        until=start.until,
    )


def group_shown(group: str) -> str:
    """A group's name in tables for admins, where the default quota needs one too."""
    return group or DEFAULT_QUOTA


class UsedBy(str, Enum):
    """Whose use is summed up."""

    USER = "user"
    GROUP = "group"

    def of(self, start: Start) -> str:
        """Who that is of one start."""
        return start.user if self is UsedBy.USER else start.group


@dataclass(frozen=True, slots=True)
class Use:
    """What the servers of one user or group had in a time.

    Attributes:
        key: the user or group; "" is the default quota.
        gib_hours: VRAM held, times how long.
        card_hours: shares of cards held, times how long: half a card for two hours is 1.
        server_hours: of servers with a GPU.
        starts: servers with or without a GPU that were asked for and not refused; `refused`: those that were.
    """

    key: str
    gib_hours: float = 0.0
    card_hours: float = 0.0
    server_hours: float = 0.0
    starts: int = 0
    refused: int = 0


def use(starts: Iterable[Start], t0: float, t1: float, *, by: UsedBy, now: float | None = None) -> tuple[Use, ...]:
    """Use between `t0` and `t1`, Unix time, who used most first.

    What runs on is counted until `now`, or `t1`.  Windows that adjoin add up to the whole.
    """
    found: dict[str, Use] = {}
    for start in starts:
        key = by.of(start)
        hours = held_seconds(start, t0, t1, now) / SECONDS_PER_HOUR
        asked = t0 <= start.asked_at < t1
        if not hours and not asked:
            continue
        so_far = found.get(key, Use(key))
        refused = start.state is StartState.REFUSED
        found[key] = Use(
            key,
            gib_hours=so_far.gib_hours + hours * start.vram / MIB_PER_GIB,
            card_hours=so_far.card_hours + hours * start.cores / WHOLE_CORES,
            server_hours=so_far.server_hours + (hours if start.cards else 0),
            starts=so_far.starts + (asked and not refused),
            refused=so_far.refused + (asked and refused),
        )
    return tuple(sorted(found.values(), key=lambda each: (-each.gib_hours, -each.starts, each.key)))


def gib_hours(
    starts: Iterable[Start], t0: float, t1: float, *, by: UsedBy, now: float | None = None
) -> dict[str, float]:
    """VRAM held between `t0` and `t1`, times hours, by user or group: see `use`."""
    return {each.key: each.gib_hours for each in use(starts, t0, t1, by=by, now=now) if each.gib_hours}


def held_seconds(start: Start, t0: float, t1: float, now: float | None = None) -> float:
    """How long `start` had its slice between `t0` and `t1`."""
    if start.started_at is None:
        return 0.0
    end = min(t1, math.inf if now is None else now, math.inf if start.ended_at is None else start.ended_at)
    return max(0.0, end - max(t0, start.started_at))


def past_use(starts: Iterable[Start], now: float, half_life: float) -> dict[str, float]:
    """How much VRAM each group had, in GiB-hours of which half is forgotten in every `half_life` seconds."""
    rate = math.log(2) / half_life
    found: dict[str, float] = {}
    for start in starts:
        if start.started_at is None or start.started_at >= now:
            continue
        ended = now if start.ended_at is None else min(now, start.ended_at)
        # the integral of 2^(-(now - t) / half_life) over the time that it was held
        weighed = (math.exp(-rate * (now - ended)) - math.exp(-rate * (now - start.started_at))) / rate
        found[start.group] = found.get(start.group, 0.0) + max(0.0, weighed) * start.vram / _MIB_SECONDS_PER_GIB_HOUR
    return found


def use_csv(uses: Iterable[Use], by: UsedBy) -> str:
    """`uses` as a table for spreadsheets, with a line of names."""
    rows = (
        (
            each.key,
            f"{each.gib_hours:.3f}",
            f"{each.card_hours:.3f}",
            f"{each.server_hours:.3f}",
            str(each.starts),
            str(each.refused),
        )
        for each in uses
    )
    return to_csv((by.value, "gib_hours", "card_hours", "server_hours", "starts", "refused"), rows)
