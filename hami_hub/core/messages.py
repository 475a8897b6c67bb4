"""What people are told.  Every sentence about room on the cards is made here, so that form, progress page, REST API and
log say the same.  Plain text, in the language that holds where it is made; whoever puts it into a page escapes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .cards import CardState
from .language import capital, chained, count, either, later, say
from .nodes import CardsShort, FleetNoRoom, FleetPlacement, NodeLack, NodesShort
from .placement import Lack, NoRoom, Shortfall
from .pods import ContainerAsk
from .slices import CardShare, Placement, SliceRequest
from .units import Mib, format_gib, format_vram

_AND = later("{a} and {b}")
_NEXT = later("{a}; {b}")
# Bytes of a sentence for an event of Kubernetes, which has 1 KiB for it.
_MOST = 900


def describe_card(state: CardState) -> str:
    """One line about a card: "Tesla T4, 15 GiB, 11 GiB free"."""
    card = state.card
    about = {"model": card.model, "vram": format_gib(card.vram)}
    if not card.healthy:
        return say("{model}, {vram}, out of order", **about)
    if card.cordoned:
        return say("{model}, {vram}, closed by an admin", **about)
    if not state.slices:
        return say("{model}, {vram}, all free", **about)
    if state.exclusive or not state.free_vram:
        return say("{model}, {vram}, taken", **about)
    return say("{model}, {vram}, {free} free", **about, free=format_gib(state.free_vram))


def describe_request(request: SliceRequest | None) -> str:
    """What is asked for, in a few words: "4 GiB · 25 %", "the whole card", "2 cards of 8 GiB each"."""
    if request is None:
        return say("no GPU")
    if request.whole:
        if request.cards == 1:
            return say("the whole card")
        return count(request.cards, "{n} whole card", "{n} whole cards")
    if request.vram is None:
        amount = say("{percent} % of the VRAM", percent=request.vram_percent)
    else:
        amount = format_vram(request.vram)
    if request.cores:
        amount = say("{vram} · {cores} %", vram=amount, cores=request.cores)
    if request.cards == 1:
        return amount
    return count(request.cards, "{n} card of {amount}", "{n} cards of {amount} each", amount=amount)


def describe_placement(placement: Placement, states: Iterable[CardState]) -> str:
    """Where a slice went: "4 GiB · 25 % of a Tesla T4"."""
    models = {state.card.uuid: state.card.model for state in states}
    return chained(_AND, (_share(share, models.get(share.uuid, "")) for share in placement.shares))


def describe_pod(asks: Sequence[ContainerAsk]) -> str:
    """What a pod asks for: "4 GiB · 25 %", or by container: "main: 4 GiB; helper: 2 GiB"."""
    if len(asks) == 1:
        return describe_request(asks[0].request)
    parts = (say("{name}: {asked}", name=ask.container, asked=describe_request(ask.request)) for ask in asks)
    return chained(_NEXT, parts) or say("no GPU")


def placed_on(placed: FleetPlacement) -> str:
    """Where a pod goes: "node-a: main has 4 GiB · 25 % of GPU-…".  For the pod's events, in English."""
    parts = [
        f"{container} has "
        + " and ".join(
            f"{'all' if share.whole else format_vram(share.vram)}{_cores(share.cores)} of {share.uuid}"
            for share in placement.shares
        )
        for container, placement in placed.slices.items()
    ]
    return _shortened([f"{placed.node}: {parts[0]}", *parts[1:]])


def why_no_node(no_room: FleetNoRoom) -> str:
    """Why a pod goes to no node: which cards fall short by how much, and what would help.  At most 1 KiB in English."""
    asked = capital(describe_pod(no_room.asks))
    reasons = [*map(_cards_short, no_room.cards), *map(_nodes_short, no_room.short)] or [say("no node offers cards")]
    if len(no_room.asks) > 1 and no_room.cards:
        reasons[0] = say("container {name}, {reason}", name=no_room.container, reason=reasons[0])
    why = _shortened(reasons, _MOST - len(asked.encode()) - 50)
    way_out = _pod_way_out(no_room)
    if no_room.never:
        return say(
            "{asked} can never fit in this cluster as it is: {reasons}. {way_out}",
            asked=asked, reasons=why, way_out=way_out,
        )  # fmt: skip
    return count(
        2 if len(no_room.asks) > 1 else no_room.asks[0].request.cards if no_room.asks else 1,
        "{asked} is not free on {nodes}: {reasons}. {way_out}",
        "{asked} are not free on {nodes}: {reasons}. {way_out}",
        asked=asked, nodes=_nodes(no_room.nodes), reasons=why, way_out=way_out,
    )  # fmt: skip


def why_no_room(no_room: NoRoom, *, in_cluster: bool = False) -> str:
    """Why a request doesn't fit, and what would: sentences for the person who asked.

    Args:
        no_room: about all cards of the machine; in a cluster of all nodes, or of the node that came nearest.
        in_cluster: where the cards are, for the words.
    """
    if not no_room.shortfalls and not no_room.fitting:
        if in_cluster:
            return say("The cluster offers no GPU now. Pick a profile without one, or ask an admin.")
        return say("This machine has no GPU. Pick a profile without one, or ask an admin to run `hami-hub doctor`.")
    asked = capital(describe_request(no_room.request))
    reasons = chained(_NEXT, map(_reason, _distinct(no_room.shortfalls))) or _too_few(no_room, in_cluster)
    if no_room.never:
        return say(
            "{asked} can never fit here: {reasons}. {way_out}",
            asked=asked, reasons=reasons, way_out=_way_out(no_room),
        )  # fmt: skip
    return count(
        no_room.request.cards,
        "{asked} is not free now: {reasons}. {way_out}",
        "{asked} are not free now: {reasons}. {way_out}",
        asked=asked, reasons=reasons, way_out=_way_out(no_room),
    )  # fmt: skip


def promised_to_others(ahead: int) -> str:
    """Why a request waits although it would fit."""
    return count(
        ahead,
        "There is room, but {n} server ahead of you waits for it.",
        "There is room, but {n} servers ahead of you wait for it.",
    )


def in_line(position: int, reason: str) -> str:
    """Where in line somebody is, and why they wait."""
    return say("You are {place} in line. {reason}", place=_ordinal(position), reason=reason)


def waited_in_vain(request: SliceRequest, seconds: float, reason: str) -> str:
    """The end of a wait that came to nothing; of no wait at all, just the reason."""
    if not seconds:
        return reason
    return say(
        "{asked} did not come free in {time}. {reason}",
        asked=capital(describe_request(request)), time=describe_time(seconds), reason=reason,
    )  # fmt: skip


def in_days(number: int) -> str:
    """So many days."""
    return count(number, "{n} day", "{n} days")


def in_hours(number: int) -> str:
    """So many hours."""
    return count(number, "{n} hour", "{n} hours")


def in_minutes(number: int) -> str:
    """So many minutes."""
    return count(number, "{n} minute", "{n} minutes")


def describe_time(seconds: float) -> str:
    """A length of time, exactly, in the longest unit that it has several of: "90 seconds", "60 minutes", "8 hours"."""
    whole = round(seconds)
    if whole >= 2 * 86400 and whole % 86400 == 0:
        return in_days(whole // 86400)
    if whole >= 2 * 3600 and whole % 3600 == 0:
        return in_hours(whole // 3600)
    if whole >= 2 * 60 and whole % 60 == 0:
        return in_minutes(whole // 60)
    return count(whole, "{n} second", "{n} seconds")


def rough_time(seconds: float) -> str:
    """How long until something, never too short: "10 minutes", "3 hours", "2 days"."""
    minutes = max(1, -int(-seconds // 60))
    if minutes >= 48 * 60:
        return in_days(-(-minutes // (24 * 60)))
    if minutes >= 120:
        return in_hours(-(-minutes // 60))
    # A page that says it anew each minute is read by nobody.
    step = 10 if minutes > 20 else 5 if minutes > 5 else 1
    return in_minutes(-(-minutes // step) * step)


def frees_next(vram: Mib, seconds: float) -> str:
    """What comes free by a time limit, at the latest."""
    return say(
        "{vram} of it come free within {time}, when a server's time is over.",
        vram=format_vram(vram), time=rough_time(seconds),
    )  # fmt: skip


def largest_fit(states: Iterable[CardState], request: SliceRequest) -> Mib:
    """The most VRAM on one card that a request like this could have now; 0 if no card takes another slice."""
    fits = (
        state.free_vram
        for state in states
        if state.card.healthy
        and request.wishes.allow(state.card)
        and state.free_slices
        and state.free_cores >= max(request.cores, 1)
    )
    return max(fits, default=Mib(0))


def _share(share: CardShare, model: str) -> str:
    name = model or say("card")
    if share.exclusive:
        return say("a whole {model}", model=name)
    return say("{amount} of a {model}", amount=f"{format_vram(share.vram)}{_cores(share.cores)}", model=name)


def _reason(shortfall: Shortfall) -> str:
    values = {
        "model": shortfall.model,
        "free": format_vram(Mib(shortfall.free)),
        "asked": format_vram(Mib(shortfall.asked)),
    }
    if shortfall.lack is Lack.EMPTY:
        return count(
            shortfall.free,
            "the {model} is shared by {n} other server",
            "the {model} is shared by {n} other servers",
            **values,
        )
    if shortfall.lack is Lack.CORES:
        values |= {"free": str(shortfall.free), "asked": str(max(shortfall.asked, 1))}
    return say(_REASONS[shortfall.lack], **values)


_REASONS = {
    Lack.HEALTH: later("the {model} is out of order"),
    Lack.CORDON: later("the {model} is closed to new servers by an admin"),
    Lack.WISH: later("the {model} is not a card that was asked for"),
    Lack.SIZE: later("the {model} has {free} in all, {asked} are asked for"),
    Lack.TAKEN: later("one server has all of the {model}"),
    Lack.SLICES: later("the {model} can't be cut into more slices"),
    Lack.VRAM: later("the {model} has {free} free, {asked} are asked for"),
    Lack.CORES: later("the {model} has {free} % of its time free, {asked} % are asked for"),
}


def _way_out(no_room: NoRoom) -> str:
    if no_room.never:
        sizes = [s.free for s in no_room.shortfalls if s.lack is Lack.SIZE and s.free]
        if sizes and no_room.request.cards == 1:
            return say("Pick {most} or less, or a profile without a GPU.", most=format_vram(Mib(max(sizes))))
        return say("Pick another profile.")
    frees = [s.free for s in no_room.shortfalls if s.lack is Lack.VRAM and s.free]
    if frees and not no_room.request.exclusive:
        return say("Pick {most} or less, or wait until a server stops.", most=format_vram(Mib(max(frees))))
    return say("Wait until a server stops, or pick another profile.")


def _too_few(no_room: NoRoom, in_cluster: bool) -> str:
    cards, fitting = no_room.request.cards, no_room.fitting
    if in_cluster:
        return count(
            cards,
            "{n} card is asked for, no node has more than {fitting}",
            "{n} cards are asked for, no node has more than {fitting}",
            fitting=fitting,
        )
    return count(
        cards,
        "{n} card is asked for, this machine has {fitting}",
        "{n} cards are asked for, this machine has {fitting}",
        fitting=fitting,
    )


def _cards_short(short: CardsShort) -> str:
    """So many cards, what they lack, and the nearest of them: "12 cards on 3 nodes have too little VRAM free, …"."""
    near = short.nearest
    cores = short.lack is Lack.CORES
    return count(
        short.cards,
        *_CARDS_SHORT[short.lack],
        nodes=_nodes(short.nodes),
        where=f"{_name(near.node)}, {near.uuid}",
        free=max(0, near.free) if cores else format_vram(Mib(max(0, near.free))),
        asked=max(1, near.asked) if cores else format_vram(Mib(near.asked)),
    )


_CARDS_SHORT = {
    Lack.HEALTH: either("{n} card on {nodes} is out of order", "{n} cards on {nodes} are out of order"),
    Lack.CORDON: either("{n} card on {nodes} is closed by an admin", "{n} cards on {nodes} are closed by an admin"),
    Lack.WISH: either(
        "{n} card on {nodes} is not among those asked for", "{n} cards on {nodes} are not among those asked for"
    ),
    Lack.SIZE: either(
        "{n} card on {nodes} is too small: {free} in all, {asked} asked for ({where})",
        "{n} cards on {nodes} are too small: {free} in all, {asked} asked for ({where})",
    ),
    Lack.EMPTY: either(
        "{n} card on {nodes} is in use, an empty one is asked for",
        "{n} cards on {nodes} are in use, an empty one is asked for",
    ),
    Lack.TAKEN: either(
        "{n} card on {nodes} belongs to one slice alone", "{n} cards on {nodes} belong to one slice alone"
    ),
    Lack.SLICES: either(
        "{n} card on {nodes} can't be cut into more slices ({where})",
        "{n} cards on {nodes} can't be cut into more slices ({where})",
    ),
    Lack.VRAM: either(
        "{n} card on {nodes} has too little VRAM free: {free} at best, {asked} asked for ({where})",
        "{n} cards on {nodes} have too little VRAM free: {free} at best, {asked} asked for ({where})",
    ),
    Lack.CORES: either(
        "{n} card on {nodes} has too little time free: {free} % at best, {asked} % asked for ({where})",
        "{n} cards on {nodes} have too little time free: {free} % at best, {asked} % asked for ({where})",
    ),
}


def _nodes_short(short: NodesShort) -> str:
    if short.lack is NodeLack.NO_CARDS:
        return count(short.nodes, "{n} node offers no cards", "{n} nodes offer no cards")
    if short.lack is NodeLack.TOGETHER:
        return say("each container alone would fit, but all together fit on no node")
    return count(short.nodes, *_NODES_SHORT[short.lack], free=short.free, asked=short.asked, where=_name(short.nearest))


_NODES_SHORT = {
    NodeLack.KUBELET_SLOTS: either(
        "on {n} node pods without a slice use up the slots: {free} at best, {asked} asked for ({where})",
        "on {n} nodes pods without a slice use up the slots: {free} at best, {asked} asked for ({where})",
    ),
    NodeLack.CARDS: either(
        "on {n} node too few cards fit: {free} at best, {asked} asked for ({where})",
        "on {n} nodes too few cards fit: {free} at best, {asked} asked for ({where})",
    ),
}


def _pod_way_out(no_room: FleetNoRoom) -> str:
    if no_room.never:
        sizes = [short.nearest.free for short in no_room.cards if short.lack is Lack.SIZE]
        if sizes:
            return say("Ask for {most} or less.", most=format_vram(Mib(max(sizes))))
        return say("Ask for less, or for other cards.")
    frees = [short.nearest.free for short in no_room.cards if short.lack is Lack.VRAM and short.nearest.free > 0]
    if frees and not any(ask.request.exclusive for ask in no_room.asks):
        return say("It starts when a slice ends, or ask for {most} or less.", most=format_vram(Mib(max(frees))))
    return say("It starts when room comes free.")


def _shortened(parts: Sequence[str], most: int = _MOST) -> str:
    """As many of `parts` as fit into so many bytes."""
    text = parts[0]
    for position, part in enumerate(parts[1:], 1):
        longer = say(_NEXT, a=text, b=part)
        if len(longer.encode()) > most:
            more = count(len(parts) - position, "and {n} more reason", "and {n} more reasons")
            return say(_NEXT, a=text, b=more)
        text = longer
    return text


def _name(node: str) -> str:
    """A node's name, which may have 253 characters."""
    return node if len(node) <= 63 else f"{node[:62]}…"


def _cores(cores: int) -> str:
    return f" · {cores} %" if cores else ""


def _distinct(shortfalls: Sequence[Shortfall]) -> list[Shortfall]:
    """One of each kind: eight equal cards that are taken are said once."""
    seen: dict[tuple[str, Lack], Shortfall] = {}
    for shortfall in shortfalls:
        key = (shortfall.model, shortfall.lack)
        if key not in seen or shortfall.free > seen[key].free:
            seen[key] = shortfall
    return list(seen.values())


def _nodes(number: int) -> str:
    return count(number, "{n} node", "{n} nodes")


def _ordinal(number: int) -> str:
    if number % 100 not in (11, 12, 13) and number % 10 in _ORDINALS:
        return say(_ORDINALS[number % 10], n=number)
    return say("{n}th", n=number)


_ORDINALS = {1: later("{n}st"), 2: later("{n}nd"), 3: later("{n}rd")}
