"""The one write that a pod costs: a Binding that carries the decision as annotations.

The API server puts both on the pod at once, so that nobody ever sees a bound pod without its slices.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

import msgspec

from cluster.apiserver import ApiRefused, ApiServer, ApiUnreachable
from hami_hub.core.codec import decision_annotations
from hami_hub.core.messages import placed_on
from hami_hub.core.names import SLICES
from hami_hub.core.nodes import FleetNoRoom, FleetPlacement
from hami_hub.core.pods import PodUid

from .books import Books
from .events import BINDING_FAILED, BINDING_SUCCEEDED, Events, PodRef
from .metrics import Metrics
from .shapes import Pod

_log = logging.getLogger(__name__)
_TIMEOUT = 8.0  # kube-scheduler waits 10 s for the whole call
_LEFT_OPEN = 300


class Binder:
    """Turns reservations into bindings."""

    def __init__(
        self, books: Books, api: ApiServer, events: Events, metrics: Metrics, *, reservation_seconds: float
    ) -> None:
        self._books, self._api, self._events, self._metrics = books, api, events, metrics
        self._reservation_seconds = reservation_seconds
        self._posted: dict[PodUid, float] = {}
        books.seen_bound.append(self._seen)

    async def bind(self, pod: PodRef, node: str) -> str:
        """Bind `pod` to `node`; "" when it is bound there, else why not.  Asked again for a bound pod, it says ""
        again.
        """
        uid = PodUid(pod.uid)
        if self._books.bound.get(uid) == node:
            return ""
        placed = self._held(pod, uid, node)
        if placed is None:
            return self._failed(pod, f"No slice is reserved for this pod on {node}. It is placed again by itself.")
        try:
            await self._api.request("POST", _path(pod, "/binding"), self._body(pod, placed), timeout=_TIMEOUT)
        except ApiUnreachable as error:
            return await self._in_doubt(pod, uid, node, str(error))
        except ApiRefused as error:
            if error.status >= 500:
                return await self._in_doubt(pod, uid, node, error.message)
            if error.status == 409 and await self._is_bound(pod, node):
                return self._done(pod, uid, placed)
            self._books.release(uid)
            return self._failed(pod, f"The API server refused the binding: {error.message}")
        self._metrics.api_writes.labels("binding").inc()
        return self._done(pod, uid, placed)

    def _held(self, pod: PodRef, uid: PodUid, node: str) -> FleetPlacement | None:
        """What is reserved on `node`.  A reservation that ended, or that another replica made, is made again if it
        can be.
        """
        placed = self._books.fleet.binding(uid, node)
        view = self._books.waiting.get(uid)
        if placed is None and view is not None:
            verdict = self._books.fleet.reserve(view, [node], until=time.monotonic() + self._reservation_seconds)
            if not isinstance(verdict, FleetNoRoom):
                placed = self._books.fleet.binding(uid, node)
        return placed

    def _body(self, pod: PodRef, placed: FleetPlacement) -> bytes:
        view = self._books.waiting.get(PodUid(pod.uid))
        containers = view.containers if view is not None else tuple(placed.slices)
        return msgspec.json.encode(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {
                    "namespace": pod.namespace,
                    "name": pod.name,
                    "uid": pod.uid,
                    "annotations": decision_annotations(placed.node, placed.slices, containers, at=int(time.time())),
                },
                "target": {"apiVersion": "v1", "kind": "Node", "name": placed.node},
            }
        )

    async def _in_doubt(self, pod: PodRef, uid: PodUid, node: str, reason: str) -> str:
        """No clear answer: the binding may have been made.  Only who knows that it wasn't gives the slice away."""
        try:
            found = await self._get(pod)
        except (ApiRefused, ApiUnreachable) as error:
            if isinstance(error, ApiRefused) and error.status == 404:
                self._books.release(uid)
            else:
                _log.warning("Whether %s/%s was bound isn't known; its slice stays taken until it is.", *_who(pod))
            return self._failed(pod, f"{reason} Whether the pod was bound isn't known yet.")
        if _bound_by_us(found, pod, node):
            self._books.fleet.confirm(uid, until=time.monotonic() + self._reservation_seconds)
            return ""
        self._books.release(uid)
        return self._failed(pod, reason)

    async def _is_bound(self, pod: PodRef, node: str) -> bool:
        try:
            return _bound_by_us(await self._get(pod), pod, node)
        except (ApiRefused, ApiUnreachable):
            return False

    async def _get(self, pod: PodRef) -> Pod:
        return msgspec.json.decode(await self._api.request("GET", _path(pod), timeout=2.0), type=Pod)

    def _done(self, pod: PodRef, uid: PodUid, placed: FleetPlacement) -> str:
        self._books.fleet.confirm(uid, until=time.monotonic() + self._reservation_seconds)
        self._events.say(pod, BINDING_SUCCEEDED, placed_on(placed))
        if uid in self._books.bound:
            self._metrics.watch_lag.observe(0)  # the watch was quicker than the answer
        elif len(self._posted) < _LEFT_OPEN:
            self._posted[uid] = time.monotonic()
        return ""

    def _failed(self, pod: PodRef, text: str) -> str:
        self._events.say(pod, BINDING_FAILED, text)
        return text

    def _seen(self, uid: PodUid) -> None:
        at = self._posted.pop(uid, None)
        if at is not None:
            self._metrics.watch_lag.observe(time.monotonic() - at)


def _bound_by_us(found: Pod, pod: PodRef, node: str) -> bool:
    metadata: Mapping[str, object] = found.get("metadata", {})
    annotations = metadata.get("annotations")
    return (
        metadata.get("uid") == pod.uid
        and found.get("spec", {}).get("nodeName") == node
        and isinstance(annotations, dict)
        and SLICES in annotations
    )


def _path(pod: PodRef, sub: str = "") -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}{sub}"


def _who(pod: PodRef) -> tuple[str, str]:
    return pod.namespace, pod.name
