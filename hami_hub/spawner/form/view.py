"""What the spawn form shows, as plain data: which line is checked, which is greyed out, which words stand where.

Pure; `render` turns it into HTML.  Sentences about room on the cards come from `hami_hub.core.messages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ...core.cards import CardState
from ...core.offers import Availability, Offer
from ...core.units import format_gib
from .amounts import AmountField, amount_fields, fits_now
from .cardlines import CardLine, card_lines
from .fields import PROFILE


@dataclass(frozen=True)
class FormContext:
    """What the form is made from.

    Attributes:
        cards: every card with what is taken of it.
        offers: the profiles as they stand for this person, in the order in which they are shown.
        chosen: the options of the last choice, as `parse_form` returned them; may be empty or stale.
        problem: why no GPU can be had at all, or why nobody knows, a sentence for people; empty if all is well.
        nodes: the same cards, those of one machine together: a slice of several cards is had on one. Empty: all
            of them are.
    """

    cards: tuple[CardState, ...]
    offers: tuple[Offer, ...]
    chosen: Mapping[str, str]
    problem: str = ""
    nodes: tuple[tuple[CardState, ...], ...] = ()

    @property
    def machines(self) -> tuple[tuple[CardState, ...], ...]:
        """The cards, machine by machine."""
        return self.nodes or (self.cards,)


class Tone(str, Enum):
    """Bootstrap's name for a badge's colour.  The badge's words say the same."""

    GOOD = "success"
    SLOW = "warning"
    CLOSED = "secondary"


@dataclass(frozen=True, slots=True)
class Badge:
    """What picking a profile leads to, in two or three words."""

    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class ProfileLine:
    """One profile in the list.

    Attributes:
        reason: why it waits or can't be had; empty if it starts now, or if the form's problem says it.
        amounts: the fields that are open if it is picked.
    """

    name: str
    title: str
    description: str
    badge: Badge
    reason: str
    selectable: bool
    checked: bool
    blamed_on_problem: bool
    amounts: tuple[AmountField, ...] = ()


@dataclass(frozen=True, slots=True)
class FormView:
    """The whole form.  `cards` is empty where no profile has a GPU."""

    problem: str
    cards: tuple[CardLine, ...]
    cards_heading: str
    profiles: tuple[ProfileLine, ...]


def form_view(context: FormContext) -> FormView:
    """What is shown for `context`."""
    wants_gpu = any(offer.profile.request is not None for offer in context.offers)
    problem = _problem(context) if wants_gpu else ""
    checked = _checked(context, bool(problem))
    return FormView(
        problem=problem,
        cards=card_lines(context.cards) if wants_gpu else (),
        profiles=tuple(_profile_line(offer, context, bool(problem), checked) for offer in context.offers),
        cards_heading="GPU" if len(context.cards) == 1 else "GPUs",
    )


def _problem(context: FormContext) -> str:
    """Without cards every profile has the same reason: it is said once, above them."""
    if context.problem or context.cards:
        return context.problem
    return next((offer.text for offer in context.offers if offer.availability is Availability.NEVER), "")


def _blamed(offer: Offer, problem: bool) -> bool:
    answered = (Availability.CLOSED, Availability.UNKNOWN)
    return problem and offer.profile.request is not None and offer.availability not in answered


def _checked(context: FormContext, problem: bool) -> str:
    """The last choice if it can still be picked, else the first profile that can."""
    names = [offer.profile.name for offer in context.offers if offer.selectable and not _blamed(offer, problem)]
    chosen = context.chosen.get(PROFILE, "")
    return chosen if chosen in names else next(iter(names), "")


def _profile_line(offer: Offer, context: FormContext, problem: bool, checked: str) -> ProfileLine:
    profile, blamed = offer.profile, _blamed(offer, problem)
    chosen = context.chosen if context.chosen.get(PROFILE) == profile.name else {}
    selectable = offer.selectable and not blamed
    return ProfileLine(
        name=profile.name,
        title=profile.title,
        description=profile.description,
        badge=Badge("No GPU", Tone.CLOSED) if blamed else _badge(offer, context.machines),
        reason="" if blamed else offer.text,
        selectable=selectable,
        checked=profile.name == checked,
        blamed_on_problem=blamed,
        amounts=amount_fields(profile, context.machines, chosen) if selectable else (),
    )


def _badge(offer: Offer, machines: tuple[tuple[CardState, ...], ...]) -> Badge:
    if offer.availability is Availability.WAITS:
        fits = fits_now(offer.profile, machines)
        return Badge(f"Up to {format_gib(fits)} now" if fits else "Waits", Tone.SLOW)
    return {
        Availability.NOW: Badge("Starts now", Tone.GOOD),
        Availability.NEVER: Badge("Never fits", Tone.CLOSED),
        Availability.CLOSED: Badge("Not yours", Tone.CLOSED),
        Availability.UNKNOWN: Badge("May wait", Tone.SLOW),
    }[offer.availability]
