"""Quotas: how much of the cards a group's servers, and one person's, may hold together.

Pure.  A quota is written as flat text on a JupyterHub group (`hami.vram = 24GiB`), use is what runs (`Charge`), and
`judge` says whether one more server may start.  Who holds the charges is `hami_hub.spawner.charges`' business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .slices import SliceId
from .units import Mib

PREFIX = "hami."


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuota:
    """What one person may hold, instead of what the group says of everybody.  None: as the group says."""

    vram: Mib | None = None
    cores: int | None = None
    servers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What the servers of one group may hold together.  None: no limit.

    Attributes:
        vram: MiB over all cards; `cores`: percent of a card, 200 is two cards; `servers`: those with a GPU.
        vram_per_user, cores_per_user, servers_per_user: the same for each person.
        profiles: names of the profiles that may be paid from it.
        max_lifetime, idle_timeout: seconds after which a server is stopped.
        weight: share of those who wait; two groups of weight 2 and 1 get their turns as 2 to 1.
        users: exceptions, by user name.
    """

    vram: Mib | None = None
    cores: int | None = None
    servers: int | None = None
    vram_per_user: Mib | None = None
    cores_per_user: int | None = None
    servers_per_user: int | None = None
    profiles: frozenset[str] | None = None
    max_lifetime: int | None = None
    idle_timeout: int | None = None
    weight: float = 1.0
    users: Mapping[str, UserQuota] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuotaFault:
    """A property that is written wrongly.  `text` is a sentence: the value, the rule, what would be right."""

    key: str
    value: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one starting or running server is charged.

    Attributes:
        group: who pays; "" is the default quota.
        vram, cores: over all its cards.
        since: Unix time of the accepted start; `until`: of the end of its lifetime.
    """

    holder: SliceId
    user: str
    group: str
    profile: str
    cards: int
    vram: Mib
    cores: int
    since: float
    until: float | None = None
