"""What each profile would come to right now, for one person: starts, waits and why, can't be had.

The form, the REST API and the dashboard show this; `profiles.choose` and `Ledger.reserve` enforce it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from .cards import CardState
from .messages import why_no_room
from .placement import NoRoom, place
from .profiles import Profile


class Availability(str, Enum):
    """What picking a profile leads to."""

    NOW = "now"
    WAITS = "waits"
    NEVER = "never"  # these cards can't hold it even when empty
    CLOSED = "closed"  # not open to this person


@dataclass(frozen=True, slots=True)
class Offer:
    """A profile with what picking it leads to; `text` says why when it is not `NOW`."""

    profile: Profile
    availability: Availability
    text: str = ""

    @property
    def selectable(self) -> bool:
        """Whether it makes sense to let the person pick it."""
        return self.availability in (Availability.NOW, Availability.WAITS)


def offers(profiles: Iterable[Profile], states: Sequence[CardState], groups: Collection[str] = ()) -> tuple[Offer, ...]:
    """Every profile, in the order of declaration, as it stands for a member of `groups`."""
    return tuple(_offer(profile, states, groups) for profile in profiles)


def _offer(profile: Profile, states: Sequence[CardState], groups: Collection[str]) -> Offer:
    if not profile.open_to(groups):
        return Offer(profile, Availability.CLOSED, f"Only for members of {' or '.join(sorted(profile.groups))}.")
    if profile.request is None:
        return Offer(profile, Availability.NOW)
    verdict = place(profile.request, states)
    if not isinstance(verdict, NoRoom):
        return Offer(profile, Availability.NOW)
    # Where the amount is free, a smaller one than the preset may still fit.
    if profile.bounds is not None and any(state.card.healthy and state.card.vram for state in states):
        return Offer(profile, Availability.WAITS, why_no_room(verdict))
    return Offer(profile, Availability.NEVER if verdict.never else Availability.WAITS, why_no_room(verdict))
