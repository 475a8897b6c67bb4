"""What follows from the cards as they are: the slots the kubelet hears of, and the annotation the scheduler reads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from cluster.settings import Settings
from hami_hub.core.cards import CardUuid

from . import mig
from .base import Base, BaseError, CardBase
from .files import write_whole
from .health import NodeCards
from .mig import offers_by_resource
from .node import NodeRegister, register_text
from .plugin import Offer
from .slices import NodeSlices
from .slots import Slot, offer_slots

_NVIDIA = "nvidia.com/"


class Announcer:
    """Keeps both up to date.

    Args:
        settings: names and amounts.
        cards: this node's cards.
        slices: who holds which slot.
        register: writes the annotation.
        base: brings MIG devices into containers.
        problem: why this node gives out no slices; "": it does.
        tell: an event on the node: reason, text, whether it is a warning.
        new_offer: called once for each resource, in which MIG devices come under more than one.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        cards: NodeCards,
        slices: NodeSlices,
        register: NodeRegister,
        base: Base,
        problem: Callable[[], str],
        tell: Callable[[str, str, bool], None],
        new_offer: Callable[[str, Offer], None],
    ) -> None:
        self._settings, self._cards, self._slices = settings, cards, slices
        self._register, self._problem, self._new_offer = register, problem, new_offer
        self._tell, self._told = tell, ""
        self._base, self._specs = base, ""
        self._offers: dict[str, Offer] = {}

    def offer(self, resource: str) -> Offer:
        """What there is of `resource`."""
        if resource not in self._offers:
            self._offers[resource] = Offer()
            self._new_offer(resource, self._offers[resource])
        return self._offers[resource]

    def publish(self) -> None:
        """Tell what has changed."""
        plugin = self._settings.device_plugin
        problem = self._problem()
        if problem != self._told:
            self._tell("NoSlices", problem or "This node gives out slices again.", bool(problem))
            self._told = problem
        usable = not problem
        self._register.set(register_text(self._cards.cards, scaling=plugin.device_memory_scaling, usable=usable))
        self.offer(self._settings.resources.count).set(self._slots(usable=usable))
        if plugin.mig_strategy == "mixed":
            self._offer_mig()

    def _slots(self, *, usable: bool) -> tuple[Slot, ...]:
        cards = self._cards.cards
        ill = {card.uuid for card in cards if not (usable and card.healthy)}
        holds = self._slices.holds
        return offer_slots(
            total=sum(card.split_count for card in cards),
            ill=sum(card.split_count for card in cards if card.uuid in ill),
            held_on_ill={slot for slot, hold in holds.items() if hold.card in ill},
            held_on_healthy={slot for slot, hold in holds.items() if hold.card not in ill},
        )

    def _offer_mig(self) -> None:
        self._write_specs()
        cut = [(each.card.vram, each.card.healthy, each.reading.mig_devices) for each in self._cards.conditions]
        wanted = offers_by_resource(cut, prefix=_NVIDIA)
        # A profile of which no device is left is still known to the kubelet.
        for resource in [*wanted, *(name for name in self._offers if name != self._settings.resources.count)]:
            self.offer(resource).set(tuple(Slot(each.uuid, each.healthy) for each in wanted.get(resource, ())))

    def _write_specs(self) -> None:
        """How the runtime brings each MIG device into a container; one that the node doesn't name is left out."""
        bases: dict[CardUuid, CardBase] = {}
        for device in (device for each in self._cards.conditions for device in each.reading.mig_devices):
            with contextlib.suppress(BaseError):
                bases[device.uuid] = self._base.cards([device.uuid], {device.uuid: device.number})
        text = mig.encode_specs(bases)
        if bases and text != self._specs:
            write_whole(self._slices.folders.cdi / mig.FILE, text.encode())
            self._specs = text
