"""What people are told.  Every sentence about room on the cards is made here, so that form, progress page, REST API and
log say the same.  Plain text; whoever puts it into a page escapes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .cards import CardState
from .nodes import CardsShort, FleetNoRoom, FleetPlacement, NodeLack, NodesShort
from .placement import Lack, NoRoom, Shortfall
from .pods import ContainerAsk
from .slices import Placement, SliceRequest
from .units import Mib, format_gib, format_vram


def describe_card(state: CardState) -> str:
    """One line about a card: "Tesla T4, 15 GiB, 11 GiB free"."""
    card = state.card
    if not card.healthy:
        return f"{card.model}, {format_gib(card.vram)}, out of order"
    if card.cordoned:
        return f"{card.model}, {format_gib(card.vram)}, closed by an admin"
    if not state.slices:
        return f"{card.model}, {format_gib(card.vram)}, all free"
    if state.exclusive or not state.free_vram:
        return f"{card.model}, {format_gib(card.vram)}, taken"
    return f"{card.model}, {format_gib(card.vram)}, {format_gib(state.free_vram)} free"


def describe_request(request: SliceRequest | None) -> str:
    """What is asked for, in a few words: "4 GiB · 25 %", "the whole card", "2 cards of 8 GiB each"."""
    if request is None:
        return "no GPU"
    if request.whole:
        return "the whole card" if request.cards == 1 else f"{request.cards} whole cards"
    amount = f"{request.vram_percent} % of the VRAM" if request.vram is None else format_vram(request.vram)
    amount += _cores(request.cores)
    return amount if request.cards == 1 else f"{request.cards} cards of {amount} each"


def describe_placement(placement: Placement, states: Iterable[CardState]) -> str:
    """Where a slice went: "4 GiB · 25 % of a Tesla T4"."""
    models = {state.card.uuid: state.card.model for state in states}
    parts = []
    for share in placement.shares:
        model = models.get(share.uuid, "card")
        amount = f"{format_vram(share.vram)}{_cores(share.cores)}"
        parts.append(f"a whole {model}" if share.exclusive else f"{amount} of a {model}")
    return " and ".join(parts)


def describe_pod(asks: Sequence[ContainerAsk]) -> str:
    """What a pod asks for: "4 GiB · 25 %", or by container: "main: 4 GiB; helper: 2 GiB"."""
    if len(asks) == 1:
        return describe_request(asks[0].request)
    return "; ".join(f"{ask.container}: {describe_request(ask.request)}" for ask in asks) or "no GPU"


def placed_on(placed: FleetPlacement) -> str:
    """Where a pod goes: "node-a: main has 4 GiB · 25 % of GPU-…"."""
    parts = [
        f"{container} has "
        + " and ".join(
            f"{'all' if share.whole else format_vram(share.vram)}{_cores(share.cores)} of {share.uuid}"
            for share in placement.shares
        )
        for container, placement in placed.slices.items()
    ]
    return _shortened([f"{placed.node}: {parts[0]}", *parts[1:]], "; ")


def why_no_node(no_room: FleetNoRoom) -> str:
    """Why a pod goes to no node: which cards fall short by how much, and what would help.  At most 1 KiB in UTF-8."""
    asked = _capital(describe_pod(no_room.asks))
    several = len(no_room.asks) > 1 or any(ask.request.cards > 1 for ask in no_room.asks)
    verb = "are" if several else "is"
    not_free = f"{verb} not free on {_count(no_room.nodes, 'node')}"
    start = f"{asked} {'can never fit in this cluster as it is' if no_room.never else not_free}"
    about = f"container {no_room.container}, " if len(no_room.asks) > 1 and no_room.cards else ""
    reasons = [*(_cards_short(short) for short in no_room.cards), *(_nodes_short(short) for short in no_room.short)]
    if not reasons:
        reasons = ["no node offers cards"]
    return _shortened([f"{start}: {about}{reasons[0]}", *reasons[1:]], "; ") + f". {_pod_way_out(no_room)}"


def why_no_room(no_room: NoRoom, *, in_cluster: bool = False) -> str:
    """Why a request doesn't fit, and what would: sentences for the person who asked.

    Args:
        no_room: about all cards of the machine; in a cluster of all nodes, or of the node that came nearest.
        in_cluster: where the cards are, for the words.
    """
    if not no_room.shortfalls and not no_room.fitting:
        if in_cluster:
            return "The cluster offers no GPU now. Pick a profile without one, or ask an admin."
        return "This machine has no GPU. Pick a profile without one, or ask an admin to run `hami-hub doctor`."
    asked = _capital(describe_request(no_room.request))
    reasons = "; ".join(_reason(shortfall) for shortfall in _distinct(no_room.shortfalls))
    if no_room.never:
        return f"{asked} can never fit here: {reasons or _too_few(no_room, in_cluster)}. {_way_out(no_room)}"
    verb = "are" if no_room.request.cards > 1 else "is"
    return f"{asked} {verb} not free now: {reasons or _too_few(no_room, in_cluster)}. {_way_out(no_room)}"


def promised_to_others(ahead: int) -> str:
    """Why a request waits although it would fit."""
    return f"There is room, but {_count(ahead, 'server')} ahead of you {'waits' if ahead == 1 else 'wait'} for it."


def in_line(position: int, reason: str) -> str:
    """Where in line somebody is, and why they wait."""
    return f"You are {_ordinal(position)} in line. {reason}"


def waited_in_vain(request: SliceRequest, seconds: float, reason: str) -> str:
    """The end of a wait that came to nothing; of no wait at all, just the reason."""
    if not seconds:
        return reason
    return f"{_capital(describe_request(request))} did not come free in {_duration(seconds)}. {reason}"


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


def _reason(shortfall: Shortfall) -> str:
    name = f"the {shortfall.model}"
    if shortfall.lack is Lack.VRAM:
        return f"{name} has {format_vram(Mib(shortfall.free))} free, {format_vram(Mib(shortfall.asked))} are asked for"
    if shortfall.lack is Lack.SIZE:
        return (
            f"{name} has {format_vram(Mib(shortfall.free))} in all, {format_vram(Mib(shortfall.asked))} are asked for"
        )
    return {
        Lack.HEALTH: f"{name} is out of order",
        Lack.CORDON: f"{name} is closed to new servers by an admin",
        Lack.WISH: f"{name} is not a card that was asked for",
        Lack.EMPTY: f"{name} is shared by {_count(shortfall.free, 'other server')}",
        Lack.TAKEN: f"one server has all of the {shortfall.model}",
        Lack.SLICES: f"{name} can't be cut into more slices",
        Lack.CORES: f"{name} has {shortfall.free} % of its time free, {max(shortfall.asked, 1)} % are asked for",
    }[shortfall.lack]


def _way_out(no_room: NoRoom) -> str:
    if no_room.never:
        sizes = [s.free for s in no_room.shortfalls if s.lack is Lack.SIZE and s.free]
        if sizes and no_room.request.cards == 1:
            return f"Pick {format_vram(Mib(max(sizes)))} or less, or a profile without a GPU."
        return "Pick another profile."
    frees = [s.free for s in no_room.shortfalls if s.lack is Lack.VRAM and s.free]
    if frees and not no_room.request.exclusive:
        return f"Pick {format_vram(Mib(max(frees)))} or less, or wait until a server stops."
    return "Wait until a server stops, or pick another profile."


def _too_few(no_room: NoRoom, in_cluster: bool) -> str:
    place = "no node has more than" if in_cluster else "this machine has"
    return f"{no_room.request.cards} cards are asked for, {place} {no_room.fitting}"


def _cards_short(short: CardsShort) -> str:
    """So many cards, what they lack, and the nearest of them: "12 cards on 3 nodes have too little VRAM free, …"."""
    near, one = short.nearest, short.cards == 1
    has, are, belongs = ("has", "is", "belongs") if one else ("have", "are", "belong")
    where = f"{_name(near.node)}, {near.uuid}"
    asked, free = format_vram(Mib(near.asked)), format_vram(Mib(max(0, near.free)))
    time = f"{max(1, near.asked)} %"
    said = {
        Lack.HEALTH: f"{are} out of order",
        Lack.CORDON: f"{are} closed by an admin",
        Lack.WISH: f"{are} not among those asked for",
        Lack.SIZE: f"{are} too small: {free} in all, {asked} asked for ({where})",
        Lack.EMPTY: f"{are} in use, an empty one is asked for",
        Lack.TAKEN: f"{belongs} to one slice alone",
        Lack.SLICES: f"can't be cut into more slices ({where})",
        Lack.VRAM: f"{has} too little VRAM free: {free} at best, {asked} asked for ({where})",
        Lack.CORES: f"{has} too little time free: {max(0, near.free)} % at best, {time} asked for ({where})",
    }[short.lack]
    return f"{_count(short.cards, 'card')} on {_count(short.nodes, 'node')} {said}"


def _nodes_short(short: NodesShort) -> str:
    nodes = _count(short.nodes, "node")
    best = f"{short.free} at best, {short.asked} asked for ({_name(short.nearest)})"
    return {
        NodeLack.NO_CARDS: f"{nodes} {'offers' if short.nodes == 1 else 'offer'} no cards",
        NodeLack.KUBELET_SLOTS: f"on {nodes} pods without a slice use up the slots: {best}",
        NodeLack.CARDS: f"on {nodes} too few cards fit: {best}",
        NodeLack.TOGETHER: "each container alone would fit, but all together fit on no node",
    }[short.lack]


def _pod_way_out(no_room: FleetNoRoom) -> str:
    if no_room.never:
        sizes = [short.nearest.free for short in no_room.cards if short.lack is Lack.SIZE]
        return f"Ask for {format_vram(Mib(max(sizes)))} or less." if sizes else "Ask for less, or for other cards."
    frees = [short.nearest.free for short in no_room.cards if short.lack is Lack.VRAM and short.nearest.free > 0]
    if frees and not any(ask.request.exclusive for ask in no_room.asks):
        return f"It starts when a slice ends, or ask for {format_vram(Mib(max(frees)))} or less."
    return "It starts when room comes free."


def _shortened(parts: Sequence[str], between: str, most: int = 900) -> str:
    """As many of `parts` as fit into so many bytes."""
    text = parts[0]
    for position, part in enumerate(parts[1:], 1):
        if len(f"{text}{between}{part}".encode()) > most:
            return f"{text}{between}and {_count(len(parts) - position, 'more reason')}"
        text = f"{text}{between}{part}"
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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _ordinal(number: int) -> str:
    teen = number % 100 in (11, 12, 13)
    return f"{number}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    return _count(whole // 60, "minute") if whole >= 60 and whole % 60 == 0 else _count(whole, "second")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
