"""What is left of containers that are gone: found, and removed.

Never removed is what may still run: a pod is gone when a complete list of the node's pods doesn't have it, or has it as
finished, and the kubelet names none of its slots, for longer than the grace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from .owner import Assigned, Pod, is_finished
from .slices import NodeSlices

GRACE_SECONDS = 30.0


class Garbage:
    """Decides what goes; remembers since when each pod was seen to be gone.

    Args:
        grace: seconds.
    """

    def __init__(self, *, grace: float = GRACE_SECONDS) -> None:
        self._grace = grace
        self._gone_since: dict[str, float] = {}

    @property
    def waiting(self) -> bool:
        """Whether something will go when its grace is over."""
        return bool(self._gone_since)

    def ripe(
        self, keys: Collection[str], *, pods: Mapping[str, Pod], running: Collection[str], now: float
    ) -> frozenset[str]:
        """The owners' keys of whom everything is to be removed.

        Args:
            keys: of whom there is anything on the node.
            pods: all of the node's pods by UID.
            running: keys of those whose slots the kubelet names.
            now: a clock's time in seconds.
        """
        alive = {uid for uid, pod in pods.items() if not is_finished(pod)}
        gone = {key for key in keys if key.partition("_")[0] not in alive and key not in running}
        self._gone_since = {key: self._gone_since.get(key, now) for key in gone}
        return frozenset(key for key, since in self._gone_since.items() if now - since >= self._grace)


def running_keys(slices: NodeSlices, assigned: Iterable[Assigned]) -> frozenset[str]:
    """The keys of those owners whose slots the kubelet still names for them."""
    named = {(each.namespace, each.pod, each.container, slot) for each in assigned for slot in each.slots}
    return frozenset(
        hold.owner.key
        for slot, hold in slices.holds.items()
        if (hold.owner.namespace, hold.owner.pod, hold.owner.container, slot) in named
    )
