"""Who got around the limiter: what the driver says a slice's processes hold, beside what the slice's own page says.

The limiter is preloaded, and a program that talks to the driver by itself never meets it.  Seen from outside it is
there all the same.  Decides only; `spawner.escapes`, or the device plugin on Kubernetes, asks NVML and the pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .cards import CardUuid
from .slices import SliceId
from .units import Mib, format_vram

# A context is made before it is charged, and page and driver are read one after the other.
TOLERANCE = Mib(64)
LOOKS_BEFORE_TELLING = 3


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """A process on a card, by the driver's own count.  `slice`: whose it is, by what the system says of it."""

    pid: int
    card: CardUuid
    used: Mib
    slice: SliceId


@dataclass(frozen=True, slots=True)
class SliceUse:
    """What a slice's page says of one card.

    Attributes:
        limit: VRAM granted.
        held: what the page accounts for, by process.  PIDs may be those of another PID namespace.
        whole: the slice has all of the card, and keeps no account.
    """

    slice: SliceId
    card: CardUuid
    limit: Mib
    held: Mapping[int, Mib] = field(default_factory=dict)
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Escape:
    """A slice that holds more of a card than its page says, or than it may.

    Attributes:
        used: by the driver's count, all its processes together.
        accounted: by its page.
        processes: (pid, MiB that no page answers for), those that took most first: ending them ends the escape.
    """

    slice: SliceId
    card: CardUuid
    used: Mib
    accounted: Mib
    limit: Mib
    processes: tuple[tuple[int, Mib], ...]

    @property
    def text(self) -> str:
        """One sentence for an admin."""
        pids = ", ".join(str(pid) for pid, _ in self.processes)
        word = "process" if len(self.processes) == 1 else "processes"
        return (
            f"{self.slice} holds {format_vram(self.used)} of the card {self.card}, of which its slice answers for "
            f"{format_vram(self.accounted)} and may have {format_vram(self.limit)}: "
            f"{word} {pids} got around the limiter."
        )


def find_escapes(
    uses: Iterable[ProcessUse], slices: Iterable[SliceUse], *, tolerance: Mib = TOLERANCE
) -> tuple[Escape, ...]:
    """The slices whose processes hold more than the page says, or more than the limit."""
    pages = {(page.slice, page.card): page for page in slices}
    by_slice: dict[tuple[SliceId, CardUuid], list[ProcessUse]] = {}
    for use in uses:
        by_slice.setdefault((use.slice, use.card), []).append(use)
    found = []
    for (holder, card), members in by_slice.items():
        page = pages.get((holder, card), SliceUse(holder, card, Mib(0)))
        escape = None if page.whole else _compare(page, members, tolerance)
        if escape is not None:
            found.append(escape)
    return tuple(found)


def _compare(page: SliceUse, members: Sequence[ProcessUse], tolerance: Mib) -> Escape | None:
    used = sum(member.used for member in members)
    accounted = sum(page.held.values())
    # A page can be made to say anything, but not that a slice may have more than was granted.
    excess = used - min(accounted, page.limit)
    if excess <= tolerance:
        return None
    unanswered = [(member.pid, Mib(member.used - page.held.get(member.pid, 0))) for member in members]
    if not any(amount > 0 for _, amount in unanswered):
        unanswered = [(member.pid, member.used) for member in members]
    culprits = []
    for pid, amount in sorted(unanswered, key=lambda each: -each[1]):
        if amount <= 0 or excess <= tolerance:
            break
        culprits.append((pid, amount))
        excess -= amount
    return Escape(page.slice, page.card, Mib(used), Mib(accounted), page.limit, tuple(culprits))


class EscapeWatch:
    """Tells an escape from a moment's difference: it must be there at several looks in a row."""

    def __init__(self, *, looks: int = LOOKS_BEFORE_TELLING, tolerance: Mib = TOLERANCE) -> None:
        self._looks = looks
        self._tolerance = tolerance
        self._seen: dict[tuple[SliceId, CardUuid, int], int] = {}
        self._allowed: dict[tuple[SliceId, CardUuid], Mib] = {}

    def see(self, uses: Iterable[ProcessUse], slices: Iterable[SliceUse]) -> tuple[Escape, ...]:
        """The escapes that are to be told after this look, each once as long as it lasts."""
        uses = tuple(uses)
        found = find_escapes(uses, self._as_granted(uses, slices), tolerance=self._tolerance)
        seen: dict[tuple[SliceId, CardUuid, int], int] = {}
        told = []
        for escape in found:
            keys = [(escape.slice, escape.card, pid) for pid, _ in escape.processes]
            counts = [self._seen.get(key, 0) + 1 for key in keys]
            seen.update(zip(keys, counts, strict=True))
            if self._looks in counts:
                told.append(escape)
        self._seen = seen
        return tuple(told)

    def _as_granted(self, uses: Sequence[ProcessUse], slices: Iterable[SliceUse]) -> list[SliceUse]:
        """A slice that was made smaller than what it holds has not escaped: until it frees that, it may have it."""
        granted = []
        allowed = {}
        for page in slices:
            key = (page.slice, page.card)
            used = sum(use.used for use in uses if (use.slice, use.card) == key)
            limit = max(page.limit, min(self._allowed.get(key, page.limit), Mib(used)))
            allowed[key] = limit
            granted.append(SliceUse(page.slice, page.card, limit, page.held, page.whole))
        self._allowed = allowed
        return granted
