"""`c.GpuCluster`: where the cluster's GPU scheduler is, and what it says of cards and of pods that wait.

Read only, and never needed for a start: where the scheduler can't be asked, forms and progress pages say so and know
less.  What its answers mean is `hami_hub.core.inventory`'s; who may place what is decided by the scheduler itself.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import aiohttp
from kubespawner.clients import shared_client
from traitlets import Float, Unicode
from traitlets.config import SingletonConfigurable

from ...core.cards import Card, CardState
from ...core.codec import WireError
from ...core.explanation import no_room_from_json
from ...core.inventory import node_states
from ...core.language import Sentence, in_english, later
from ...core.line import Frees
from ...core.messages import why_no_node
from ...core.names import ResourceNames

DEFAULT_SCHEDULER = "hami-scheduler"
_UNREACHABLE = (aiohttp.ClientError, OSError, asyncio.TimeoutError, ssl.SSLError)
_ANSWER_SECONDS = 1.0  # an answer is good for so long
_FACTS_SECONDS = 60.0
_RETRY_SECONDS = 5.0  # after the ConfigMap could not be read


@dataclass(frozen=True, slots=True)
class Facts:
    """What the cluster's admin has set up.

    Attributes:
        url: of the scheduler's inventory; "" if it isn't known.
        problem: why it isn't known, for people.
    """

    url: str = ""
    ca: str = ""
    scheduler: str = DEFAULT_SCHEDULER
    names: ResourceNames = field(default_factory=ResourceNames)
    problem: Sentence | None = None


@dataclass(frozen=True, slots=True)
class Inventory:
    """The cluster's cards; `why_unknown` says why they are not known, for people.

    `said` is the scheduler's whole answer, for who wants more of it.
    """

    nodes: Mapping[str, tuple[CardState, ...]] = field(default_factory=dict)
    why_unknown: Sentence | None = None
    said: Mapping[str, Any] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether the scheduler has answered."""
        return self.why_unknown is None

    @property
    def problem(self) -> str:
        """Why the cards are not known, in the language that holds here; "" if they are."""
        return str(self.why_unknown or "")

    @property
    def cards(self) -> tuple[Card, ...]:
        """Every card of every node, without what is taken of it."""
        return tuple(state.card for state in self.states)

    @property
    def states(self) -> tuple[CardState, ...]:
        """Every card of every node."""
        return tuple(state for cards in self.nodes.values() for state in cards)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the scheduler says of a pod that has no place.

    Attributes:
        place: in the queue, from 1; 0 if it doesn't say.
        reason: why it waits, a sentence.
        never: it won't ever fit.
        frees: what comes free next that would help; the scheduler doesn't know, but the hub may.
    """

    place: int = 0
    reason: str = ""
    never: bool = False
    frees: Frees | None = None


class GpuCluster(SingletonConfigurable):
    """The cluster's GPU scheduler, as one hub sees it."""

    config_map = Unicode(
        "hami-hub",
        help="""
        Name of the ConfigMap in which the chart says where the scheduler is. It lies in the hub's own namespace, if
        that is in the chart's value `hub.namespaces`.

        Example::

            c.GpuCluster.config_map = "gpus"

        Default: hami-hub.
        """,
    ).tag(config=True)

    namespace = Unicode(
        "",
        help="""
        Namespace of that ConfigMap.

        Example::

            c.GpuCluster.namespace = "jhub"

        Default: the hub's own; for a hub outside of the cluster, `default`.
        """,
    ).tag(config=True)

    url = Unicode(
        "",
        help="""
        Address of the scheduler's inventory, for a hub that can't read the ConfigMap.

        Example::

            c.GpuCluster.url = "https://hami-scheduler.hami-hub.svc"

        Default: what the ConfigMap says.
        """,
    ).tag(config=True)

    ca_file = Unicode(
        "",
        help="""
        File of the certificate authority (PEM) that the scheduler's certificate is signed by.

        Example::

            c.GpuCluster.ca_file = "/etc/hami/ca.crt"

        Default: what the ConfigMap says.
        """,
    ).tag(config=True)

    token_file = Unicode(
        "/var/run/secrets/kubernetes.io/serviceaccount/token",
        help="""
        File of the token with which the hub says to the scheduler who it is. It is read again for every question,
        since Kubernetes replaces it every hour.

        Example::

            c.GpuCluster.token_file = "/run/secrets/hub-token"

        Default: that of the hub's ServiceAccount.
        """,
    ).tag(config=True)

    scheduler_name = Unicode(
        "",
        help="""
        `schedulerName` of pods with a GPU.

        Example::

            c.GpuCluster.scheduler_name = "gpus-scheduler"

        Default: what the ConfigMap says, else hami-scheduler.
        """,
    ).tag(config=True)

    timeout = Float(
        2.0,
        min=0.1,
        help="""
        How long the scheduler may take to answer, in seconds, before a form is shown without free amounts.

        Example::

            c.GpuCluster.timeout = 5

        Default: 2, as long as people don't mind to wait for a page.
        """,
    ).tag(config=True)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._facts = Facts()
        self._facts_until = 0.0
        self._inventory = Inventory()
        self._inventory_until = 0.0
        self._told: Sentence | None = None

    @cached_property
    def _lock(self) -> asyncio.Lock:
        return asyncio.Lock()

    @cached_property
    def _facts_lock(self) -> asyncio.Lock:
        return asyncio.Lock()

    @cached_property
    def _session(self) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self.timeout), trust_env=False)
        self._closing = asyncio.ensure_future(_close_at_the_end(session))
        return session

    async def facts(self, default_namespace: str = "default") -> Facts:
        """What is set up, asked for once a minute; never raises."""
        async with self._facts_lock:
            now = asyncio.get_running_loop().time()
            if now >= self._facts_until:
                self._facts = await self._read_facts(self.namespace or default_namespace)
                self._facts_until = now + (_RETRY_SECONDS if self._facts.problem else _FACTS_SECONDS)
                self._tell(self._facts.problem)
        return self._facts

    async def inventory(self, default_namespace: str = "default") -> Inventory:
        """The cards, at most a second old, for however many forms at once; never raises."""
        facts = await self.facts(default_namespace)
        if facts.problem:
            return Inventory(why_unknown=facts.problem)
        async with self._lock:
            loop = asyncio.get_running_loop()
            if loop.time() >= self._inventory_until:
                self._inventory = await self._read_inventory(facts)
                self._inventory_until = loop.time() + _ANSWER_SECONDS
                self._tell(self._inventory.why_unknown)
        return self._inventory

    @property
    def last(self) -> Inventory:
        """The cards as they were last told of; nobody is asked."""
        return self._inventory

    async def waiting(self, namespace: str, pod: str, default_namespace: str = "default") -> Waiting | None:
        """Why a pod waits; None if the scheduler can't say.  Never raises."""
        facts = await self.facts(default_namespace)
        if facts.problem:
            return None
        try:
            said = await self._get(facts, f"/v1/pods/{namespace}/{pod}")
            if said.get("state") not in ("waiting", "reserved"):
                return None
            return Waiting(int(said.get("place") or 0), _reason(said), said.get("never") is True)
        except (_ClusterError, ValueError, TypeError, AttributeError):
            return None

    async def _read_inventory(self, facts: Facts) -> Inventory:
        try:
            said = await self._get(facts, "/v1/inventory")
            return Inventory(node_states(said), said=said)
        except _ClusterError as error:
            return Inventory(why_unknown=error.why)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            self.log.error("The GPU scheduler's inventory can't be understood: %r", error)
            return Inventory(why_unknown=_unknown(later("its answer can't be understood")))

    async def _get(self, facts: Facts, place: str) -> Any:
        headers = {"Authorization": f"Bearer {self._token()}"}
        try:
            address = f"{facts.url.rstrip('/')}{place}"
            async with self._session.get(address, headers=headers, ssl=_trusting(facts.ca)) as answer:
                if answer.status in (401, 403):
                    raise _ClusterError(_unknown(later("the GPU scheduler doesn't let the hub ask")))
                if answer.status != 200:
                    raise _ClusterError(
                        _unknown(later("the GPU scheduler answers with {status}"), status=answer.status)
                    )
                return json.loads(await answer.read())
        except _UNREACHABLE as error:
            self._facts_until = 0.0  # it may have moved, or have another certificate
            raise _ClusterError(_unknown(later("the GPU scheduler doesn't answer"))) from error

    def _token(self) -> str:
        try:
            return Path(self.token_file).read_text().strip()
        except OSError as error:
            raise _ClusterError(
                _unknown(later("the hub's token {file} can't be read"), file=self.token_file)
            ) from error

    async def _read_facts(self, namespace: str) -> Facts:
        data: Mapping[str, str] = {}
        problem: Sentence | None = None
        if not (self.url and self.ca_file and self.scheduler_name):
            try:
                client = shared_client("CoreV1Api")
                found = await client.read_namespaced_config_map(
                    self.config_map, namespace, _request_timeout=self.timeout
                )
                data = found.data or {}
            except Exception as error:  # whatever the client raises: nothing here may stop a start
                why = getattr(error, "reason", None) or type(error).__name__
                problem = _unknown(
                    later("the ConfigMap {name} in {namespace} can't be read ({why})"),
                    name=self.config_map,
                    namespace=namespace,
                    why=why,
                )
        url = self.url or data.get("url", "")
        if not url and problem is None:
            problem = _unknown(later("the ConfigMap {name} names no scheduler"), name=self.config_map)
        return Facts(
            url=url,
            ca=_file(self.ca_file) or data.get("ca.crt", ""),
            scheduler=self.scheduler_name or data.get("schedulerName", "") or DEFAULT_SCHEDULER,
            names=_names(data.get("resources", "")),
            problem=None if url else problem,
        )

    def _tell(self, problem: Sentence | None) -> None:
        """Once, not at every form."""
        if problem and problem != self._told:
            self.log.warning("%s", in_english(str(problem)))
        self._told = problem


class _ClusterError(RuntimeError):
    """The scheduler can't be asked; `why`, for people."""

    def __init__(self, why: Sentence) -> None:
        super().__init__(str(why))
        self.why = why


def _unknown(why: str, /, **values: object) -> Sentence:
    template = later("What is free on the GPUs is not known now: {why}. You can pick one all the same.")
    return Sentence(template, {"why": Sentence(why, values)})


def _reason(said: Mapping[str, Any]) -> str:
    """Why a pod waits, in the language that holds if the scheduler says what it is made of."""
    try:
        return why_no_node(no_room_from_json(said["why"]))
    except (KeyError, WireError):
        return str(said.get("reason") or "")


def _trusting(ca: str) -> ssl.SSLContext | bool:
    """Only that authority; a cluster's own certificates are never the system's business."""
    if not ca:
        return True
    if ca not in _contexts:
        _contexts.clear()
        _contexts[ca] = ssl.create_default_context(cadata=ca)
    return _contexts[ca]


_contexts: dict[str, ssl.SSLContext] = {}


def _names(text: str) -> ResourceNames:
    """The resources' names from the ConfigMap's JSON; what isn't there has its usual name."""
    try:
        said = json.loads(text) if text else {}
        usual = ResourceNames()
        return ResourceNames(
            count=str(said.get("count") or usual.count),
            memory=str(said.get("memory") or usual.memory),
            memory_percentage=str(said.get("memoryPercentage") or usual.memory_percentage),
            cores=str(said.get("cores") or usual.cores),
            priority=str(said.get("priority") or usual.priority),
        )
    except (ValueError, AttributeError):
        return ResourceNames()


def _file(path: str) -> str:
    try:
        return Path(path).read_text() if path else ""
    except OSError:
        return ""


async def _close_at_the_end(session: aiohttp.ClientSession) -> None:
    """The hub cancels what still runs when it ends."""
    try:
        await asyncio.Event().wait()
    finally:
        await session.close()
