"""What kube-scheduler asks: where may this pod go (`/filter`), and bind it there (`/bind`).  Loopback only, plain HTTP.

Of the nodes that kube-scheduler finds fit, one is answered, with the pod's slices reserved on it.  `binding` makes it
lasting.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

import msgspec
from aiohttp import web

from hami_hub.core.fleet import Fleet
from hami_hub.core.messages import why_no_node
from hami_hub.core.nodes import FleetNoRoom, FleetPlacement
from hami_hub.core.pods import PodView, view_pod

from .binding import Binder
from .books import Books, Refused
from .events import FILTERING_FAILED, Events, PodRef
from .metrics import Metrics
from .shapes import Node, Pod
from .wake import Patience

_log = logging.getLogger(__name__)
# Simulations bring whole nodes, thousands of them.
MAX_BODY = 256 * 1024 * 1024
_SYNCED_WITHIN = 8.0  # less than kube-scheduler waits for an answer
_EXPLAINED_ON = 64
_BREATH = 32


class FilterArgs(msgspec.Struct, rename="pascal"):
    """kube-scheduler's ExtenderArgs."""

    pod: Pod
    nodes: RawNodes | None = None
    node_names: list[str] | None = None


class RawNodes(msgspec.Struct):
    """A NodeList whose items are given back as they came."""

    items: list[msgspec.Raw] = []


class FilterResult(msgspec.Struct, rename="pascal", omit_defaults=True):
    """kube-scheduler's ExtenderFilterResult."""

    node_names: list[str] | None = None
    nodes: RawNodes | None = None
    failed_and_unresolvable_nodes: dict[str, str] = {}
    error: str = ""


class BindArgs(
    msgspec.Struct, rename={"name": "PodName", "namespace": "PodNamespace", "uid": "PodUID", "node": "Node"}
):
    """kube-scheduler's ExtenderBindingArgs."""

    name: str
    namespace: str
    uid: str
    node: str


class BindResult(msgspec.Struct, rename="pascal"):
    """kube-scheduler's ExtenderBindingResult."""

    error: str = ""


class Extender:
    """The two handlers.  `synced` is set once the books hold the whole cluster."""

    def __init__(
        self,
        books: Books,
        binder: Binder,
        events: Events,
        metrics: Metrics,
        *,
        synced: asyncio.Event,
        reservation_seconds: float,
    ) -> None:
        self._books, self._binder, self._events, self._metrics = books, binder, events, metrics
        self._synced, self._reservation_seconds = synced, reservation_seconds
        self._patience = Patience()
        self._filter_args = msgspec.json.Decoder(FilterArgs)
        self._bind_args = msgspec.json.Decoder(BindArgs)
        self._encode = msgspec.json.Encoder().encode

    def application(self) -> web.Application:
        """The server's routes."""
        application = web.Application(client_max_size=MAX_BODY)
        application.router.add_post("/filter", self.filter)
        application.router.add_post("/bind", self.bind)
        return application

    async def filter(self, request: web.Request) -> web.Response:
        """One node for the pod, or why none."""
        began = time.perf_counter()
        try:
            args = self._filter_args.decode(await request.read())
        except msgspec.MsgspecError as error:
            return web.Response(status=400, text=f"The body is no ExtenderArgs: {error}.")
        outcome, result = await self._judge(args)
        self._metrics.filter_seconds.labels(outcome).observe(time.perf_counter() - began)
        return self._answer(result)

    async def bind(self, request: web.Request) -> web.Response:
        """Bind the pod to the node where its slices are reserved."""
        began = time.perf_counter()
        try:
            args = self._bind_args.decode(await request.read())
        except msgspec.MsgspecError as error:
            return web.Response(status=400, text=f"The body is no ExtenderBindingArgs: {error}.")
        pod = PodRef(args.namespace, args.name, args.uid)
        failure = await self._binder.bind(pod, args.node) if await self._ready() else _NOT_READY
        self._metrics.bind_seconds.labels("failed" if failure else "bound").observe(time.perf_counter() - began)
        return self._answer(BindResult(error=failure))

    async def _judge(self, args: FilterArgs) -> tuple[str, FilterResult]:
        view = view_pod(args.pod, self._books.rules)
        if view is None or not (view.asks or view.problem):
            return "passed", FilterResult(node_names=args.node_names, nodes=args.nodes)
        if view.problem:
            names = args.node_names or []
            return "refused", FilterResult(
                node_names=[], failed_and_unresolvable_nodes=_everywhere(view.problem, names)
            )
        if not await self._ready():
            return "not_ready", FilterResult(error=_NOT_READY)
        if args.node_names is None:
            return "simulated", await self._simulate(view, args.nodes or RawNodes())
        if view.uid in self._books.bound:
            return "stale", FilterResult(error=f"The pod is bound to {self._books.bound[view.uid]} already.")
        self._books.refused.pop(view.uid, None)
        verdict = self._reserve(view, args.node_names)
        if isinstance(verdict, FleetNoRoom):
            wait = self._patience.seconds()
            if wait and await self._books.change(wait):
                verdict = self._reserve(view, args.node_names)
        if isinstance(verdict, FleetPlacement):
            return "placed", FilterResult(node_names=[verdict.node])
        return "refused", self._refuse(view, args.node_names, verdict)

    def _reserve(self, view: PodView, names: Sequence[str]) -> FleetPlacement | FleetNoRoom:
        return self._books.fleet.reserve(view, names, until=time.monotonic() + self._reservation_seconds)

    def _refuse(self, view: PodView, names: Sequence[str], no_room: FleetNoRoom) -> FilterResult:
        text = why_no_node(no_room)
        self._books.refused[view.uid] = Refused(time.monotonic(), text, no_room.never, no_room)
        self._metrics.refusals.labels(no_room.reason).inc()
        self._events.say(PodRef(view.namespace, view.name, view.uid), FILTERING_FAILED, text)
        return FilterResult(node_names=[], failed_and_unresolvable_nodes=_everywhere(text, names))

    async def _simulate(self, view: PodView, nodes: RawNodes) -> FilterResult:
        """Every node of `nodes` that would do by itself; nothing is reserved.  Nodes that aren't there yet (an
        autoscaler thinks ahead) are judged by their own annotations.
        """
        fitting: list[msgspec.Raw] = []
        failed: dict[str, str] = {}
        for count, raw in enumerate(nodes.items):
            if count % _BREATH == 0:
                await asyncio.sleep(0)
            node = msgspec.json.decode(raw, type=Node)
            name = node["metadata"]["name"]
            verdict = self._fleet_with(node).try_place(view, [name])
            if isinstance(verdict, FleetPlacement):
                fitting.append(raw)
            elif len(failed) < _EXPLAINED_ON:
                failed[name] = why_no_node(verdict)
        return FilterResult(nodes=RawNodes(fitting), failed_and_unresolvable_nodes=failed)

    def _fleet_with(self, node: Node) -> Fleet:
        if node["metadata"]["name"] in self._books.nodes:
            return self._books.fleet
        thought_of = Books(self._books.rules)
        thought_of.put_node(node)
        return thought_of.fleet

    async def _ready(self) -> bool:
        """Whether the cluster's state is known; waits for it a while after a start."""
        if not self._synced.is_set():
            try:
                await asyncio.wait_for(self._synced.wait(), _SYNCED_WITHIN)
            except asyncio.TimeoutError:
                return False
        return True

    def _answer(self, result: FilterResult | BindResult) -> web.Response:
        return web.Response(body=self._encode(result), content_type="application/json")


_NOT_READY = "The scheduler has just started and doesn't know yet who holds which card. It is tried again by itself."


def _everywhere(text: str, names: Sequence[str]) -> dict[str, str]:
    """`text` for each node, so that kube-scheduler counts right; with many nodes for one, so that answers stay short.

    A node that isn't named counts to kube-scheduler as one that preemption can't help, as those named here do.
    """
    # kube-scheduler takes the text for a format: "25 % is asked for" would come out as "25 %!i(MISSING)s asked for".
    plain = text.removesuffix(".").replace(" %", " percent").replace("%", " percent")
    return dict.fromkeys(names if len(names) <= _EXPLAINED_ON else names[:1], plain)
