"""How long a server may run: until its time is over, or until nobody has used it for some while.

Decides only; `spawner.lifetimes` waits and stops the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .language import say
from .messages import describe_time
from .quota import Quota

# Whoever looks seldom sees use late, so never more seldom than this, nor than a quarter of the idle time.
_LOOK_SECONDS = 60.0
_SHORTEST_LOOK = 0.2


class End(str, Enum):
    """Why a server's time is over; the value is a label."""

    LIFETIME = "hami-lifetime"
    IDLE = "hami-idle"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a server was started under.  In seconds; None: no limit.  They hold until it ends, whatever is edited."""

    max_lifetime: int | None = None
    idle_timeout: int | None = None

    def until(self, started: float) -> float | None:
        """When a server that got its slice at `started`, Unix time, ends at the latest."""
        return None if self.max_lifetime is None else started + self.max_lifetime


def terms(quota: Quota | None, profile_lifetime: int | None) -> Terms:
    """The terms of a start: of two lifetimes the smaller.  None for a server that no quota pays for."""
    quotas = quota.max_lifetime if quota is not None else None
    both = [each for each in (quotas, profile_lifetime) if each is not None]
    return Terms(min(both, default=None), quota.idle_timeout if quota is not None else None)


def look(now: float, *, until: float | None, idle_timeout: int | None, last_used: float) -> End | float | None:
    """Whether a server's time is over; if not, the seconds until it is to be looked at again; None: never.

    Times are Unix time, `idle_timeout` is in seconds; None: no limit.
    """
    if until is not None and now >= until:
        return End.LIFETIME
    if idle_timeout is not None and now >= last_used + idle_timeout:
        return End.IDLE
    waits = [] if until is None else [until - now]
    if idle_timeout is not None:
        waits += [last_used + idle_timeout - now, max(_SHORTEST_LOOK, idle_timeout / 4)]
    # A clock that is set back is noticed, too.
    return min(*waits, _LOOK_SECONDS) if waits else None


def why_over(end: End, *, max_lifetime: float | None = None, idle_timeout: int | None = None) -> str:
    """What is told of a server that was stopped."""
    if end is End.LIFETIME:
        return say("The server was stopped: its {time} were over.", time=describe_time(max_lifetime or 0))
    return say("The server was stopped: nobody had used it for {time}.", time=describe_time(idle_timeout or 0))
