"""What this node says of itself in the API server: its cards, in HAMi's annotation, and events about them.

It writes to no other object than its own node.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from cluster.apiserver import MERGE_PATCH, ApiRefused, ApiServer, ApiUnreachable
from cluster.event import About, event_body, events_path
from hami_hub.core.cards import Card, scaled_vram
from hami_hub.core.codec import encode_node_register
from hami_hub.core.names import NODE_REGISTER

_log = logging.getLogger(__name__)
# Somebody may have changed or removed it.
_LOOK_SECONDS = 60.0
_PAUSE_SECONDS = 5.0
_COMPONENT = "hami-device-plugin"
_MOST_EVENTS = 100


class _Meta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Node(msgspec.Struct):
    metadata: _Meta


def register_text(cards: Sequence[Card], *, scaling: str, usable: bool) -> str:
    """The annotation for these cards.

    Args:
        cards: in the order of their index, so that the same cards make the same text.
        scaling: a card counts as so many times its memory.
        usable: False: whatever their health, none takes a slice.
    """
    return encode_node_register(
        [
            replace(card, vram=scaled_vram(card.vram, scaling), healthy=card.healthy and usable)
            for card in cards
            if card.vram  # one that never said how much it has can't be counted
        ]
    )


class NodeRegister:
    """Keeps the node's annotation as it should be, writing only what differs.

    Args:
        api: the API server.
        node: this node's name.

    Attributes:
        announced: whether it was ever as it should be.
    """

    def __init__(self, api: ApiServer, node: str) -> None:
        self._api, self._node = api, node
        self.announced = False
        self._wanted: str | None = None
        self._news = asyncio.Event()

    def set(self, text: str) -> None:
        """What the annotation should be from now on."""
        if text != self._wanted:
            self._wanted = text
            self._news.set()

    async def run(self) -> None:
        """Write and look again, for as long as this isn't cancelled."""
        while True:
            self._news.clear()
            pause = _LOOK_SECONDS
            try:
                await self._write()
            except (ApiRefused, ApiUnreachable) as error:
                _log.warning("The cards of node %s can't be announced: %s", self._node, error)
                pause = _PAUSE_SECONDS
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), pause)

    async def _write(self) -> None:
        if self._wanted is None:
            return
        path, wanted = f"/api/v1/nodes/{self._node}", self._wanted
        node = msgspec.json.decode(await self._api.request("GET", path), type=_Node)
        if (node.metadata.annotations or {}).get(NODE_REGISTER) != wanted:
            patch = {"metadata": {"annotations": {NODE_REGISTER: wanted}}}
            await self._api.request("PATCH", path, json.dumps(patch).encode(), content_type=MERGE_PATCH)
            _log.info("Announced on node %s: %s", self._node, wanted)
        self.announced = True


class NodeEvents:
    """Events on the node, written in order; one that can't be written is only logged.

    Args:
        api: the API server.
        node: this node's name.
    """

    def __init__(self, api: ApiServer, node: str) -> None:
        self._api = api
        # The kubelet too names a node by its name where a UID stands; `kubectl describe node` looks for that.
        self._about = About("Node", node, uid=node)
        self._waiting: asyncio.Queue[dict[str, object]] = asyncio.Queue(_MOST_EVENTS)

    def tell(self, reason: str, text: str, *, warning: bool = True) -> None:
        """Write an event soon."""
        _log.log(logging.WARNING if warning else logging.INFO, "%s: %s", reason, text)
        with contextlib.suppress(asyncio.QueueFull):
            body = event_body(self._about, reason, text, component=_COMPONENT, warning=warning, host=self._about.name)
            self._waiting.put_nowait(body)

    async def run(self) -> None:
        """Write what is told, for as long as this isn't cancelled."""
        while True:
            event = await self._waiting.get()
            try:
                await self._api.request("POST", events_path(self._about), json.dumps(event).encode())
            except (ApiRefused, ApiUnreachable) as error:
                _log.warning("The event %s can't be written: %s", event["reason"], error)
