"""What the spawn form shows, as plain data: which line is checked, which is greyed out, which words stand where.

Pure; `render` turns it into HTML.  Sentences about room on the cards come from `hami_hub.core.messages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ...core.cards import CardState
from ...core.language import ENGLISH, say
from ...core.offers import Availability, Offer
from ...core.units import format_gib
from .amounts import AmountField, amount_fields, fits_now
from .budgets import Bill, BudgetLine
from .budgetviews import BudgetsView, budgets_view
from .cardlines import CardLine, card_lines
from .fields import GROUP, PROFILE
from .live import live_data

# More than so many are searched rather than read.
_MANY = 12


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
        budgets: what could pay; empty: nothing is limited.
        bills: who pays for each profile with a GPU, by its name.
        language: what the form is written in, as gettext names it.
        linked: whether `chosen` comes from a link.
    """

    cards: tuple[CardState, ...]
    offers: tuple[Offer, ...]
    chosen: Mapping[str, str]
    problem: str = ""
    nodes: tuple[tuple[CardState, ...], ...] = ()
    budgets: tuple[BudgetLine, ...] = ()
    bills: Mapping[str, Bill] = field(default_factory=dict)
    language: str = ENGLISH
    linked: bool = False

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
    """The whole form.  `cards` and `budgets` are empty where no profile has a GPU.

    Attributes:
        notice: why something else is checked than what was chosen the last time, or than what a link says.
        search: the label of a field to search the profiles with; empty if there are few.
        over_quota: the badge of a profile that the picked group can't pay for; empty if nobody has a budget.
        live: JSON for the page's script.
    """

    language: str
    problem: str
    notice: str
    cards: tuple[CardLine, ...]
    cards_heading: str
    budgets: BudgetsView
    profiles: tuple[ProfileLine, ...]
    profiles_heading: str
    search: str
    over_quota: str
    live: str


def form_view(context: FormContext) -> FormView:
    """What is shown for `context`."""
    wants_gpu = any(offer.profile.request is not None for offer in context.offers)
    problem = _problem(context) if wants_gpu else ""
    checked = _checked(context, bool(problem))
    return FormView(
        language=context.language.replace("_", "-"),
        problem=problem,
        notice=_notice(context, checked),
        cards=card_lines(context.cards) if wants_gpu else (),
        cards_heading=say("GPU") if len(context.cards) == 1 else say("GPUs"),
        budgets=budgets_view(context.budgets if wants_gpu else ()),
        profiles=tuple(_profile_line(offer, context, bool(problem), checked) for offer in context.offers),
        profiles_heading=say("Profile"),
        search=say("Search the profiles") if len(context.offers) > _MANY else "",
        over_quota=say("Over quota") if context.budgets else "",
        live=live_data(context.offers, context.bills, len(context.budgets)),
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
    names = [str(offer.profile.name) for offer in context.offers if offer.selectable and not _blamed(offer, problem)]
    chosen = context.chosen.get(PROFILE, "")
    return chosen if chosen in names else next(iter(names), "")


def _notice(context: FormContext, checked: str) -> str:
    """What was chosen and isn't checked: said, lest somebody starts what they didn't mean."""
    chosen = context.chosen.get(PROFILE, "")
    if chosen and chosen != checked:
        title = next((offer.profile.title for offer in context.offers if offer.profile.name == chosen), "")
        if title and context.linked:
            return say("The link picks {profile}, which you can't have now.", profile=title)
        if title:
            return say("Your last choice, {profile}, can't be had now.", profile=title)
        if context.linked:
            return say("The link picks the profile {profile}, which isn't offered here.", profile=_quoted(chosen))
        return say("Your last choice, the profile {profile}, isn't offered any more.", profile=_quoted(chosen))
    group = context.chosen.get(GROUP, "")
    if group and context.budgets and not any(line.chosen for line in context.budgets):
        return say("The group {group} doesn't pay for you any more.", group=_quoted(group))
    return ""


def _profile_line(offer: Offer, context: FormContext, problem: bool, checked: str) -> ProfileLine:
    profile, blamed = offer.profile, _blamed(offer, problem)
    chosen = context.chosen if context.chosen.get(PROFILE) == profile.name else {}
    selectable = offer.selectable and not blamed
    return ProfileLine(
        name=profile.name,
        title=profile.title,
        description=profile.description,
        badge=Badge(say("No GPU"), Tone.CLOSED) if blamed else _badge(offer, context.machines),
        reason="" if blamed else offer.text,
        selectable=selectable,
        checked=profile.name == checked,
        blamed_on_problem=blamed,
        amounts=amount_fields(profile, context.machines, chosen, offer.affordable) if selectable else (),
    )


def _badge(offer: Offer, machines: tuple[tuple[CardState, ...], ...]) -> Badge:
    if offer.availability is Availability.WAITS:
        fits = fits_now(offer.profile, machines)
        return Badge(say("Up to {vram} now", vram=format_gib(fits)) if fits else say("Waits"), Tone.SLOW)
    if offer.availability is Availability.NOW:
        return Badge(say("Starts now"), Tone.GOOD)
    if offer.availability is Availability.UNKNOWN:
        return Badge(say("May wait"), Tone.SLOW)
    if offer.availability is Availability.NEVER:
        return Badge(say("Never fits"), Tone.CLOSED)
    if offer.availability is Availability.CLOSED:
        return Badge(say("Not yours"), Tone.CLOSED)
    return Badge(say("Over quota"), Tone.CLOSED)


def _quoted(text: str) -> str:
    return f'"{text if len(text) <= 64 else text[:64] + "…"}"'
