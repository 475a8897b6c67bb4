"""What became of each attempt to start a server, and what can be read from many of them.

Pure: `hami_hub.journal` keeps them, the service and `hami-hub usage` show them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .units import Mib


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
        asked_at, started_at, ended_at, until: Unix time; None: not yet.
        reason: label of a refusal or failure, `hami-…`; `words`: the sentence that the person read, in English.
        position: in line, from 1; 0: not in line.
        placed: UUIDs of the cards.
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
    started_at: float | None = None
    ended_at: float | None = None
    until: float | None = None

    @property
    def server_of(self) -> str:
        """The slice's name."""
        return f"{self.user}/{self.server}"
