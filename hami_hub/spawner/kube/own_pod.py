"""`OwnPod`: the pod that one start has made, in what the hub is sent of its cluster.

It is not lost sight of from the moment it is asked for, and never taken for another of its name.  Whom to tell of it is
`follow`'s, what its state means is `stage`'s, how it is removed is `spawner`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from kubernetes_asyncio.client.exceptions import ApiException

from ...core.slices import Placement
from .pod import placement_of
from .stage import Json, Stage, stage_of
from .watch import Seen

_LOOK_SECONDS = 0.2


class OwnPod:
    """The pod of one start.

    Args:
        pods: of this hub's servers as they are now, by `namespace/name`.
        events: about any of them.

    Attributes:
        namespace, name: "" until it is made.
        end: what `until_over` last saw; None: nobody has waited for its end.
    """

    def __init__(self, pods: Callable[[], Mapping[str, Json]], events: Callable[[], Iterable[Json]]) -> None:
        self._pods, self._events = pods, events
        self._creation: asyncio.Future[Any] | None = None
        self.namespace = self.name = self._uid = ""
        self.end: Stage | None = None

    # --- how it comes to be -------------------------------------------------------------------------------------

    async def make(self, namespace: str, name: str, asked: Awaitable[Any], seconds: float) -> bool:
        """Whether the API server has made it.

        Args:
            namespace: where.
            name: its name.
            asked: the request to make it.
            seconds: for the answer.

        Raises:
            ApiException: it is refused; 409 if one of its name is still there.
        """
        self._creation = asyncio.ensure_future(asked)
        self._creation.add_done_callback(heard)
        try:
            # What has been asked for is not to be lost sight of if this start is cancelled.
            created = await asyncio.wait_for(asyncio.shield(self._creation), seconds)
        except asyncio.TimeoutError:
            return False
        except ApiException as error:
            if error.status != 409:
                self._creation = None
            raise
        self.namespace, self.name, self._uid = namespace, name, created.metadata.uid
        return True

    @property
    def may_be_there(self) -> bool:
        """Whether anything was asked for that was not refused."""
        return self._creation is not None

    async def until_answered(self, seconds: float) -> None:
        """Return when it isn't only being made any more, after so long at most."""
        if self._creation is not None and not self._creation.done():
            await asyncio.wait({self._creation}, timeout=seconds)

    # --- what is seen of it -------------------------------------------------------------------------------------

    def now(self) -> Json | None:
        """None: not made yet, not seen yet, or gone."""
        pod = self._pods().get(f"{self.namespace}/{self.name}")
        return pod if pod is not None and pod["metadata"].get("uid") == self._uid else None

    def and_others(self) -> Iterable[Json]:
        """The pods of all this hub's servers."""
        return self._pods().values()

    def look(self, runs: Callable[[Json], bool]) -> Seen:
        """What is known of it; `runs` says whether it is ready to be asked for pages."""
        pod = self.now()
        if pod is None:
            return Seen(created=bool(self._uid))
        return Seen(True, pod, self._own_events(), runs(pod))

    def has_node(self) -> bool:
        """Whether it has its place."""
        pod = self.now()
        return pod is not None and bool((pod.get("spec") or {}).get("nodeName"))

    def placement(self) -> Placement | None:
        """What it got; None: nothing of ours, or not yet."""
        pod = self.now()
        return placement_of(pod) if pod is not None else None

    async def until_over(self) -> None:
        """Return when it won't answer any more."""
        while True:
            pod = self.now()
            self.end = stage_of(pod, self._own_events()) if pod is not None else Stage("deleted", over=True)
            if self.end.over:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _own_events(self) -> list[Json]:
        return [each for each in self._events() if (each.get("involvedObject") or {}).get("uid") == self._uid]


def heard(done: asyncio.Future[Any]) -> None:
    """Whether it failed is not left for nobody to ask."""
    if not done.cancelled():
        done.exception()
