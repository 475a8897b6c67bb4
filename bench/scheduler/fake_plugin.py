"""Stands in for HAMi's device plugin on every node: makes the API writes of its Allocate when it sees a pod bound.

    python -m bench.scheduler.fake_plugin KUBECONFIG SECONDS

That is HAMi's best case: the real one reads more, and waits for the kubelet.  `SECONDS` is how long it takes to answer.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from cluster.apiserver import MERGE_PATCH, ApiServer, connect
from cluster.scheduler.shapes import Pod
from cluster.watch import Watch


class _Allocations:
    """A sink: each pod that HAMi is placing is answered once."""

    def __init__(self, api: ApiServer, delay: float) -> None:
        self._api, self._delay = api, delay
        self._seen: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def begin_list(self) -> None:
        """Nothing to do."""

    def end_list(self) -> None:
        """Nothing to do."""

    def drop(self, obj: Pod) -> None:
        """Nothing to do."""

    def put(self, obj: Pod) -> None:
        """Answer for it, if it is bound and waits for that."""
        metadata, node = obj["metadata"], obj["spec"].get("nodeName")
        phase = (metadata.get("annotations") or {}).get("hami.io/bind-phase")
        if node and phase == "allocating" and metadata["uid"] not in self._seen:
            self._seen.add(metadata["uid"])
            task = asyncio.create_task(self._allocate(metadata["namespace"], metadata["name"], node))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _allocate(self, namespace: str, name: str, node: str) -> None:
        await asyncio.sleep(self._delay)
        pod = f"/api/v1/namespaces/{namespace}/pods/{name}"
        await self._annotate(pod, "hami.io/vgpu-devices-to-allocate", ";")
        await self._annotate(pod, "hami.io/bind-phase", "success")
        await self._annotate(f"/api/v1/nodes/{node}", "hami.io/mutex.lock", None)

    async def _annotate(self, path: str, key: str, value: str | None) -> None:
        body = json.dumps({"metadata": {"annotations": {key: value}}}).encode()
        await self._api.request("PATCH", path, body, content_type=MERGE_PATCH)


async def main(kubeconfig: Path, delay: float) -> None:
    """Answer for ever."""
    async with connect(kubeconfig, user_agent="fake-plugin") as api:
        await Watch(api, "/api/v1/pods", Pod, _Allocations(api, delay), name="pods").run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2])))
