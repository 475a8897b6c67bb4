"""The node agent: its parts put together, and kept going until it is told to stop.

What is decided about a card is `health`'s, about a container `owner`'s, about what is left over `garbage`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from cluster.apiserver import ApiServer
from cluster.settings import Settings
from cluster.watch import Watch
from hami_hub.mounts import IN_MEMORY, file_system

from . import mig
from .announce import Announcer
from .base import Base, BaseError
from .cardnews import CardNews
from .escapes import EscapeGuard
from .garbage import GRACE_SECONDS, Garbage
from .health import NodeCards
from .kubelet import PodResources
from .library import Library
from .metrics import CountedOutcomes, NodeCollector, Sight
from .node import NodeEvents, NodeRegister
from .nvml import CardWatch
from .owner import Pod
from .plugin import Offer, SliceService
from .pods import PODS, NodePods, read_pod
from .registration import Registration
from .slices import Folders, NodeSlices
from .starts import ContainerStarts
from .tidying import Tidying
from .usage import read_uses


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are.

    Attributes:
        node: this node's name in Kubernetes.
        kubelet: the kubelet's folder.
        folders: of slices and CDI specifications.
    """

    node: str
    kubelet: Path
    folders: Folders


class Agent:
    """Everything that runs on a node.  Made in the loop that runs it.

    Args:
        places: where.
        settings: how.
        api: the API server.
        base: what brings cards into containers.
        library: what containers preload.
        look_seconds: between two looks at the cards.
        grace: seconds until what is left of a container that is gone is removed.
    """

    def __init__(
        self,
        places: Places,
        settings: Settings,
        api: ApiServer,
        *,
        base: Base,
        library: Library,
        look_seconds: float = 10.0,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._places, self._settings, self._base = places, settings, base
        plugin, self._shared = settings.device_plugin, settings.resources.count
        self._tasks: set[asyncio.Task[None]] = set()
        self._registrations: dict[str, Registration] = {}
        self._cards = NodeCards(quarantine=plugin.quarantine_seconds, ignored=plugin.ignored_xids)
        self._slices = NodeSlices(places.folders, base, library, core_limit=not plugin.disable_core_limit)
        self._events = NodeEvents(api, places.node)
        self._register = NodeRegister(api, places.node)
        self._announcer = Announcer(
            settings,
            cards=self._cards,
            slices=self._slices,
            register=self._register,
            base=base,
            problem=self.problem,
            tell=self._tell,
            new_offer=self._serve,
        )
        self.registry = CollectorRegistry()
        self._outcomes = CountedOutcomes(self.registry)
        self.registry.register(NodeCollector(places.node, self._sight))
        self._news = CardNews(
            self._cards,
            self._slices,
            threshold=plugin.unaccounted_memory,
            changed=self._announcer.publish,
            tell=self._tell,
            count_xid=self._outcomes.xid,
        )
        self._card_watch = CardWatch(self._news, split_count=plugin.device_split_count, seconds=look_seconds)
        self._kubelet = PodResources(places.kubelet / "pod-resources" / "kubelet.sock", self._shared)
        self._attend_pods(api, library, grace, look_seconds)

    def _attend_pods(self, api: ApiServer, library: Library, grace: float, look_seconds: float) -> None:
        """What goes on as pods come and go."""
        node = self._places.node
        pods = NodePods(lambda: self._tidying.wake())
        self._watch = Watch(api, PODS, Pod, pods, name="pods", query={"fieldSelector": f"spec.nodeName={node}"})
        self._tidying = Tidying(
            self._slices,
            pods=pods,
            watch=self._watch,
            kubelet=self._kubelet,
            library=library,
            garbage=Garbage(grace=grace),
        )
        self._starts = ContainerStarts(
            node=node,
            scheduler=self._settings.scheduler.name,
            kubelet=self._kubelet,
            read_pod=lambda namespace, name: read_pod(api, namespace, name),
            pods=pods,
            cards=self._cards,
            slices=self._slices,
        )
        self._escapes = EscapeGuard(
            self._slices,
            lambda: pods.by_uid,
            end=self._settings.device_plugin.escapes == "end",
            tell=self._tell,
            count=self._outcomes.escape,
            seconds=look_seconds,
        )

    async def run(self) -> None:
        """Until cancelled, or until a part of it fails, which is a bug.

        Raises:
            OSError: a folder of the node can't be used.
        """
        self._slices.load()
        self._card_watch.start()
        for part in (self._watch.run, self._register.run, self._events.run, self._tidying.run):
            self._start(part)
        if self._settings.device_plugin.escapes != "ignore":
            self._start(self._escapes.run)
        self._announcer.offer(self._shared)
        try:
            while True:
                ended, _ = await asyncio.wait(self._tasks, timeout=1, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.to_thread(self._card_watch.stop)
            await self._kubelet.close()

    def problem(self) -> str:
        """Why this node gives out no slices; "": it does."""
        run = self._places.folders.run
        if file_system(run) not in IN_MEMORY:
            return f"{run} is not on a tmpfs, which the limiter needs. Mount one there."
        if self._news.problem:
            return self._news.problem
        cards = [card for card in self._cards.cards if card.healthy]
        try:
            self._base.cards([card.uuid for card in cards], self._cards.numbers)
        except BaseError as error:
            return str(error)
        return ""

    def not_ready(self) -> str:
        """Why the plugin can't do its work now; "": it can."""
        if problem := self.problem():
            return problem
        if not self._watch.synced.is_set():
            return "The pods of this node were not listed yet."
        if not self._register.announced:
            return "The cards of this node were not announced yet."
        waiting = [name for name, each in self._registrations.items() if not each.registered]
        return f"Not registered with the kubelet for {', '.join(waiting)}." if waiting else ""

    def _tell(self, reason: str, text: str, warning: bool) -> None:
        self._events.tell(reason, text, warning=warning)

    def _serve(self, resource: str, offer: Offer) -> None:
        shared = resource == self._shared

        def service(lost: Callable[[], None]) -> SliceService:
            if shared:
                return SliceService(offer, prepare=self._starts.prepare, outcomes=self._outcomes, lost=lost)
            return SliceService(offer, device_name=mig.device_name, prepare=None, outcomes=self._outcomes, lost=lost)

        self._registrations[resource] = Registration(self._places.kubelet / "device-plugins", resource, service)
        self._start(self._registrations[resource].run)

    def _start(self, part: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._tasks.add(asyncio.create_task(part()))

    def _sight(self) -> Sight:
        registration = self._registrations.get(self._shared)
        return Sight(
            conditions=self._cards.conditions,
            uses=read_uses(self._slices),
            unaccounted=dict(self._news.unaccounted),
            slots=self._announcer.offer(self._shared).devices,
            registered=registration is not None and registration.registered,
        )
