"""What a person reads about themselves: their groups' budgets, their servers, what they had, what was refused.

Pure.  Sentences in the language that holds (`core.language`), ready for the template; amounts of others are sums only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from ..core.budgets import Budget, Measure, same_group
from ..core.history import Start, StartState, Use
from ..core.language import count, later, say
from ..core.messages import in_days, in_hours, in_minutes, rough_time
from ..core.quota_words import bare_amount
from ..core.units import Mib, format_gib, format_vram
from .model import World, budgets

LAST_STARTS = 10

_STATES = {
    StartState.WAITING: later("in line"),
    StartState.STARTING: later("starting"),
    StartState.RUNNING: later("running"),
    StartState.ENDED: later("ended"),
    StartState.REFUSED: later("refused"),
    StartState.FAILED: later("failed"),
    StartState.CANCELLED: later("cancelled"),
}
_NAMES = {Measure.VRAM: later("VRAM"), Measure.CORES: later("Cores"), Measure.SERVERS: later("GPU servers")}


@dataclass(frozen=True, slots=True)
class MeterShown:
    """One measure of a budget: what it is called, a sentence, and percents of the limit for the bar."""

    name: str
    words: str
    mine: int
    others: int


@dataclass(frozen=True, slots=True)
class BudgetShown:
    """One budget of the person's: its name, its meters, and why it pays for nothing if it doesn't."""

    label: str
    meters: tuple[MeterShown, ...]
    problem: str = ""
    unlimited: str = ""


@dataclass(frozen=True, slots=True)
class ServerShown:
    """One of the person's servers, in words."""

    name: str
    what: str
    state: str
    used: str
    times: str


@dataclass(frozen=True, slots=True)
class StartShown:
    """What became of one start; `at` is Unix time, `when` the same as ISO 8601."""

    at: float
    when: str
    name: str
    what: str
    state: str
    words: str
    sad: bool


@dataclass(frozen=True, slots=True)
class Mine:
    """The page of one person."""

    budgets: tuple[BudgetShown, ...]
    servers: tuple[ServerShown, ...]
    starts: tuple[StartShown, ...]
    had: str
    problems: tuple[str, ...] = ()


def mine(
    world: World,
    *,
    user: str,
    groups: Sequence[str],
    past: Sequence[Start],
    had: Use | None,
    days: float,
    now: float,
    away: bool = False,
    past_unknown: bool = False,
) -> Mine:
    """The page of `user`.

    Args:
        world: what goes on.
        user: their name.
        groups: theirs.
        past: their starts of the last days, newest first.
        had: what they used in `days`; None: not known.
        days: how far back that is.
        now: Unix time.
        away: the hub doesn't answer.
        past_unknown: the journal can't be read.
    """
    problems = []
    if away:
        problems.append(say("The hub doesn't answer now. This is what was known last."))
    if past_unknown:
        problems.append(say("What your servers had before can't be shown now."))
    own = [start for start in world.starts if start.user == user]
    return Mine(
        budgets=tuple(_budget(budget, user) for budget in budgets_of(world, groups)),
        servers=tuple(_server(start, _used(world, start), now) for start in own),
        starts=tuple(_start(start) for start in past if not start.state.open)[:LAST_STARTS],
        had=_had(had, days),
        problems=tuple(problems),
    )


def budgets_of(world: World, groups: Iterable[str]) -> tuple[Budget, ...]:
    """What may pay for somebody in `groups`: those with a quota, or the default one."""
    found = [budget for budget, _ in budgets(world)]
    theirs = [budget for budget in found if any(budget.group and same_group(budget.group, group) for group in groups)]
    return tuple(theirs or [budget for budget in found if not budget.group])


def _budget(budget: Budget, user: str) -> BudgetShown:
    meters = tuple(meter for measure in Measure for meter in _meters(budget, measure, user))
    problem = ""
    if budget.faults:
        problem = say(
            "This quota is written wrongly, so it pays for nothing now. {fault} Ask an admin to correct it.",
            fault=budget.faults[0].text,
        )
    unlimited = "" if meters or problem else say("No limit.")
    return BudgetShown(budget.group or say("Default quota"), meters, problem, unlimited)


def _meters(budget: Budget, measure: Measure, user: str) -> Iterable[MeterShown]:
    used, own = measure.of(budget.used), measure.of(budget.of_user(user))
    limit = getattr(budget.quota, measure.value)
    if limit is not None:
        words = say(
            "{used} of {limit} in use, {mine} by you",
            used=_bare(measure, used),
            limit=_bare(measure, limit),
            mine=_bare(measure, own),
        )
        yield MeterShown(say(_NAMES[measure]), words, *_percents(own, used - own, limit))
    my_limit = getattr(budget.quota.of_user(user), measure.value)
    if my_limit is not None:
        words = say("{mine} of {limit} in use by you", mine=_bare(measure, own), limit=_bare(measure, my_limit))
        yield MeterShown(say("{measure} for you", measure=say(_NAMES[measure])), words, *_percents(own, 0, my_limit))


def _percents(own: int, others: int, limit: int) -> tuple[int, int]:
    """Of a bar that is never longer than its frame, also where a lowered limit is exceeded."""
    whole = max(limit, own + others, 1)
    return round(100 * own / whole), round(100 * others / whole)


def _bare(measure: Measure, amount: int) -> str:
    return say("nothing") if measure is Measure.VRAM and not amount else bare_amount(measure, amount)


def _server(start: Start, used: str, now: float) -> ServerShown:
    if start.state is StartState.WAITING and start.position:
        state = say("in line, place {place}", place=start.position)
    else:
        state = say(_STATES[start.state])
    since = start.started_at or start.asked_at
    times = say("for {time}", time=_lasted(now - since))
    if start.until is not None:
        times = say("{times}, stops within {left}", times=times, left=rough_time(max(0.0, start.until - now)))
    return ServerShown(_name(start), _what(start), state, used, times)


def _lasted(seconds: float) -> str:
    """How long, roughly and never too long; `rough_time` is for what is to come."""
    minutes = max(0, int(seconds // 60))
    if minutes < 120:
        return in_minutes(minutes)
    hours = minutes // 60
    return in_hours(hours) if hours < 48 else in_days(hours // 24)


def _used(world: World, start: Start) -> str:
    """What of its slice is really in use."""
    seen = [each.used for each in world.sight.slices if world.names.get(each.holder, each.holder) == start.server_of]
    known = [used for used in seen if used is not None]
    if not known:
        return ""
    return format_gib(Mib(sum(known)))


def _start(start: Start) -> StartShown:
    return StartShown(
        at=start.asked_at,
        when=datetime.fromtimestamp(start.asked_at, timezone.utc).strftime("%Y-%m-%d %H:%MZ"),
        name=_name(start),
        what=_what(start),
        state=say(_STATES[start.state]),
        words=start.words,
        sad=start.state in (StartState.REFUSED, StartState.FAILED),
    )


def _name(start: Start) -> str:
    return start.server or say("your server")


def _what(start: Start) -> str:
    if not start.cards:
        return say("no GPU")
    amount = format_vram(start.vram)
    if start.cores:
        amount = f"{amount} · {start.cores} %"
    if start.cards > 1:
        amount = count(start.cards, "{amount} on {n} card", "{amount} on {n} cards", amount=amount)
    return amount


def _had(had: Use | None, days: float) -> str:
    if had is None:
        return ""
    return say(
        "In the last {days} days you had {gib_hours} GiB-hours of VRAM and {card_hours} hours of a whole card's time.",
        days=f"{days:g}",
        gib_hours=f"{had.gib_hours:.1f}",
        card_hours=f"{had.card_hours:.1f}",
    )
