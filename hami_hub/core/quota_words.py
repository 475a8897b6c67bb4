"""What people are told of quotas: every sentence about who pays, and why nobody does.  Plain text, in the language that
holds.  What a quota is, and what it allows, is `quota`'s and `budgets`' business.
"""

from __future__ import annotations

from collections.abc import Sequence

from .budgets import Cause, Measure, Refused
from .language import chained, count, later, say
from .messages import rough_time
from .quota import Charge
from .shown import shown
from .units import Mib, format_vram

_SENTENCES = later("{a} {b}")
_LIST = later("{a}; {b}")
_NAMED = 5  # more names than that are a list, not a sentence


def why_refused(refused: Refused, *, now: float, show_holders: bool = False) -> str:
    """Why nobody pays: what is asked for, what the rule is, who holds how much, and what to do.

    Args:
        refused: by whom, and why.
        now: Unix time.
        show_holders: whether others' servers may be named.
    """
    if refused.cause is not Cause.LIMIT:
        return chained(_SENTENCES, (_not_a_limit(refused), *_others(refused)))
    if refused.never:
        return chained(_SENTENCES, (_too_much(refused), *_others(refused), _never_out(refused)))
    parts = (
        _not_left(refused),
        *_holders(refused, show_holders),
        *_first_end(refused, now),
        *_others(refused),
        _way_out(refused),
    )
    return chained(_SENTENCES, parts)


def spoken_amount(measure: Measure, amount: int) -> str:
    """An amount in words: "8 GiB of VRAM", "50 % of a card's time", "2 GPU servers"."""
    if measure is Measure.VRAM:
        return say("{amount} of VRAM", amount=format_vram(Mib(amount)))
    if measure is Measure.CORES:
        return say("{percent} % of a card's time", percent=amount)
    return count(amount, "{n} GPU server", "{n} GPU servers")


def bare_amount(measure: Measure, amount: int) -> str:
    """An amount where it is clear of what: "8 GiB", "50 %", "2"."""
    if measure is Measure.VRAM:
        return format_vram(Mib(amount))
    return f"{amount} %" if measure is Measure.CORES else str(amount)


def _not_a_limit(refused: Refused) -> str:
    if refused.cause is Cause.FAULT:
        fault = refused.faults[0].text
        if refused.group:
            return say(
                "The quota of the group {group} is written wrongly, so it pays for nothing now. {fault} "
                "Ask an admin to correct it.",
                group=refused.group,
                fault=fault,
            )
        return say(
            "The hub's default quota is written wrongly, so nobody pays for your server now. {fault} "
            "Ask an admin to correct it.",
            fault=fault,
        )
    if refused.cause is Cause.PROFILE:
        return say(
            "The profile {profile} is not paid by {payer} (hami.profiles), which pays for: {profiles}.",
            profile=refused.asked.profile,
            payer=_payer(refused),
            profiles=", ".join(refused.others),
        )
    if refused.cause is Cause.SIZE_UNKNOWN:
        return say(
            "How much VRAM a whole card has is not known now, so {payer} can't be charged for it. "
            "Pick a profile with an amount in GiB, or try again later.",
            payer=_payer(refused),
        )
    if refused.others:
        return say("The group {group} doesn't pay for your servers.", group=shown(refused.group))
    return say(
        "The group {group} doesn't pay for your servers, and no other group does. Leave the group out.",
        group=shown(refused.group),
    )


def _others(refused: Refused) -> tuple[str, ...]:
    if refused.cause is Cause.PROFILE or not refused.others:
        return ()
    groups = ", ".join(refused.others[:_NAMED])
    if refused.cause is Cause.NOT_YOURS:
        return (say("Yours that may pay: {groups}.", groups=groups),)
    return (say("It could be paid by: {groups}.", groups=groups),)


def _too_much(refused: Refused) -> str:
    values = {"payer": _payer(refused), "key": refused.key, "limit": spoken_amount(refused.measure, refused.limit)}
    if refused.measure is Measure.SERVERS:
        if refused.of_user:
            return say("No GPU server of yours is paid by {payer} ({key} is 0).", **values)
        return say("No GPU server at all is paid by {payer} ({key} is 0).", **values)
    asked = spoken_amount(refused.measure, refused.measure.of(refused.asked.amount))
    if refused.of_user:
        return say(
            "Your start needs {asked}, more than {payer} ever gives you: {limit} ({key}).", asked=asked, **values
        )
    return say("Your start needs {asked}, more than {payer} ever has: {limit} ({key}).", asked=asked, **values)


def _not_left(refused: Refused) -> str:
    values = {"payer": _payer(refused), "key": refused.key, "limit": spoken_amount(refused.measure, refused.limit)}
    if refused.measure is Measure.SERVERS:
        if refused.of_user:
            return say("You have as many servers as {payer} gives you: {limit} ({key}).", **values)
        return say("As many servers start or run as {payer} pays for: {limit} ({key}).", **values)
    values["asked"] = spoken_amount(refused.measure, refused.measure.of(refused.asked.amount))
    values["left"] = bare_amount(refused.measure, refused.left)
    if refused.of_user:
        return say("Your start needs {asked}, and {left} is left of what {payer} gives you: {limit} ({key}).", **values)
    return say("Your start needs {asked}, and {left} is left of what {payer} has: {limit} ({key}).", **values)


def _holders(refused: Refused, show_holders: bool) -> tuple[str, ...]:
    """Who holds how much: one's own servers by name, others' together unless they may be named."""
    user, measure = refused.asked.user, refused.measure
    holding = [charge for charge in refused.charges if measure.of(charge.amount)]
    mine = [charge for charge in holding if charge.user == user]
    others = [charge for charge in holding if charge.user != user]
    named = _biggest(others, measure) if show_holders else []
    rest = [charge for charge in others if charge not in named]
    parts = [_mine(charge, measure) for charge in mine]
    parts += [
        say("{amount} by {holder}", amount=bare_amount(measure, measure.of(charge.amount)), holder=_name(charge))
        for charge in named
    ]
    if rest:
        amount = bare_amount(measure, sum(measure.of(charge.amount) for charge in rest))
        parts.append(
            count(len(rest), "{amount} by {n} other", "{amount} by {n} others", amount=amount)
            if parts or measure is not Measure.SERVERS
            else count(len(rest), "{n} server of others", "{n} servers of others")
        )
    return (say("In use: {parts}.", parts=chained(_LIST, parts)),) if parts else ()


def _mine(charge: Charge, measure: Measure) -> str:
    amount = bare_amount(measure, measure.of(charge.amount))
    _, _, server = charge.holder.partition("/")
    if server:
        return say("{amount} by your server {server}", amount=amount, server=server)
    return say("{amount} by your server", amount=amount)


def _first_end(refused: Refused, now: float) -> tuple[str, ...]:
    ends = [charge.until for charge in refused.charges if charge.until is not None]
    if not ends:
        return ()
    return (say("The first of them ends within {time}.", time=rough_time(max(0.0, min(ends) - now))),)


def _way_out(refused: Refused) -> str:
    mine = any(charge.user == refused.asked.user for charge in refused.charges)
    if refused.measure is Measure.VRAM and refused.fits and refused.asked.cards == 1:
        fits = format_vram(refused.fits)
        if mine:
            return say("Pick {fits} or less, or stop one of your servers.", fits=fits)
        return say("Pick {fits} or less, or try again when a server has stopped.", fits=fits)
    if mine:
        return say("Stop one of your servers, or pick a profile without a GPU.")
    return say("Try again when a server has stopped, or pick a profile without a GPU.")


def _never_out(refused: Refused) -> str:
    if refused.measure is Measure.VRAM and refused.limit and refused.asked.cards == 1:
        return say("Pick {limit} or less, or ask an admin for more.", limit=format_vram(Mib(refused.limit)))
    return say("Pick another profile, or ask an admin for more.")


def _payer(refused: Refused) -> str:
    return say("the group {group}", group=refused.group) if refused.group else say("the default quota")


def _biggest(charges: Sequence[Charge], measure: Measure) -> list[Charge]:
    return sorted(charges, key=lambda charge: -measure.of(charge.amount))[:_NAMED]


def _name(charge: Charge) -> str:
    return charge.holder.removesuffix("/")
