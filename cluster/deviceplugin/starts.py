"""A container that holds slots is about to start: whose it is, what it gets, and its slice made.

Who decides is `owner`, who writes is `slices`; this asks the kubelet and the API server on the way between them.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from cluster.apiserver import ApiUnreachable
from hami_hub.slicepage import PageError

from .base import BaseError
from .health import NodeCards
from .owner import Assigned, Pod, Refused, find_holder, is_finished, judge
from .pods import NodePods
from .slices import NodeSlices

_log = logging.getLogger(__name__)


class Kubelet(Protocol):
    """Who says which container holds which slots."""

    async def assigned(self) -> tuple[Assigned, ...]:
        """All containers with slots; raises `Refused` if it doesn't answer."""


class ContainerStarts:
    """Makes the slices of containers that start.

    Args:
        node: this node's name.
        scheduler: the scheduler that places slices, for words.
        kubelet: asked whose slots they are.
        read_pod: asks the API server for a pod by namespace and name; raises `Refused` or `ApiUnreachable`.
        pods: what the watch knows, for when the API server is away.
        cards: this node's cards.
        slices: where the slice is made.
    """

    def __init__(
        self,
        *,
        node: str,
        scheduler: str,
        kubelet: Kubelet,
        read_pod: Callable[[str, str], Awaitable[Pod]],
        pods: NodePods,
        cards: NodeCards,
        slices: NodeSlices,
    ) -> None:
        self._node, self._scheduler = node, scheduler
        self._kubelet, self._read_pod, self._pods = kubelet, read_pod, pods
        self._cards, self._slices = cards, slices

    async def prepare(self, slots: frozenset[str]) -> None:
        """Make the slice of the container that holds `slots`.

        Raises:
            Refused: it gets none; nothing was written for the runtime to find.
        """
        holder = find_holder(await self._kubelet.assigned(), slots)
        pod = await self._pod(holder)
        owner, placement = judge(
            pod,
            holder,
            node=self._node,
            healthy=[card.uuid for card in self._cards.cards if card.healthy],
            ill=self._cards.ill(),
            scheduler=self._scheduler,
        )
        try:
            self._slices.prepare(owner, slots, placement, self._cards.numbers)
        except (BaseError, PageError) as error:
            raise Refused("node", str(error), retry=True) from None
        except OSError as error:
            raise Refused(
                "unwritable",
                f"The slice can't be written on node {self._node}: {error.strerror or error} ({error.filename}).",
                retry=True,
            ) from None
        _log.info("%s has its slice, by %s", owner.words, ", ".join(sorted(slots)))

    async def _pod(self, holder: Assigned) -> Pod:
        try:
            return await self._read_pod(holder.namespace, holder.pod)
        except ApiUnreachable as error:
            known = self._restarted(holder)
            if known is None:
                raise Refused(
                    "api-server",
                    f"What was decided for this pod can't be asked: {error} It is tried again.",
                    retry=True,
                ) from None
            return known

    def _restarted(self, holder: Assigned) -> Pod | None:
        """The pod, if this very container ran here before with these slots: then the watch's word is good enough."""
        pod = self._pods.named(holder.namespace, holder.pod)
        if pod is None or is_finished(pod):
            return None
        before = [
            slot
            for slot, hold in self._slices.holds.items()
            if hold.owner.uid == pod["metadata"]["uid"] and hold.owner.container == holder.container
        ]
        return pod if frozenset(before) == holder.slots else None
