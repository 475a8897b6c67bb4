"""A pod at work in its slice, and one that waits: what must not notice that parts of the release come and go."""

from __future__ import annotations

from typing import Any

from tests.cluster.hami import COUNT, MEMORY, Hami, slice_pod

# Holds 2 GiB of 4000 MiB, and asks in vain for too much; a line now and then says that all is as it was.
WORK = """
import time
from hami_hub.notebook import gpu
gpu.allocate('2 GiB')
while True:
    assert gpu.total_memory() == '4000 MiB'
    try:
        gpu.allocate('3 GiB')
        print('UNLIMITED', flush=True)
    except Exception as error:
        assert 'out of memory' in str(error), error
    print('held', flush=True)
    time.sleep(0.2)
"""


class SlicesAtWork:
    """`works` has 4000 MiB of the card, `waits` wants the whole card."""

    def __init__(self, hami: Hami, space: str) -> None:
        self.hami, self.space = hami, space
        self._work()
        hami.pod("waits", {COUNT: 1}, namespace=space, wait=False)
        hami.wait_event("waits", space, "FilteringFailed")
        self._container_before = self._container()

    def _work(self) -> None:
        # A kubelet whose plugin has just come back may turn the first pod away for good.
        for _ in range(3):
            self.hami.pod(
                "works", {COUNT: 1, MEMORY: 4000}, namespace=self.space, command=["python", "-c", WORK], wait=False
            )
            pod = self.hami.cluster.wait_pod("works", "Running", "Failed", namespace=self.space)
            if pod["status"]["phase"] == "Running":
                return
            self.hami.delete("works", namespace=self.space)
        raise AssertionError(f"the pod was turned away three times: {pod['status'].get('message')}")

    def goes_on(self) -> None:
        """The pod at work is in the same container, at work, and held to its slice."""
        seen = self._lines()
        self.hami.cluster.wait_for(lambda: self._lines() > seen, "the pod goes on working")
        assert self._container() == self._container_before

    def books_are_right(self) -> None:
        """What is free fits one pod exactly, nothing more fits, and the waiting pod starts when all is free."""
        hami, space = self.hami, self.space
        assert hami.cluster.pod("waits", space)["status"]["phase"] == "Pending"
        self._create("fits", 15360 - 4000)
        hami.cluster.wait_pod("fits", namespace=space)
        self._create("more", 100)
        hami.wait_event("more", space, "FilteringFailed")
        hami.delete("fits", "more", "works", namespace=space)
        hami.cluster.wait_pod("waits", namespace=space)

    def _create(self, name: str, memory: int) -> None:
        """A pod, as soon as it is judged: a scheduler that lost sight of the cluster isn't asked for a while."""
        manifest = slice_pod(name, {COUNT: 1, MEMORY: memory}, namespace=self.space)

        def look() -> str | None:
            refused = self.hami.create(manifest)
            return None if "failed calling webhook" in refused else refused or "created"

        assert self.hami.cluster.wait_for(look, "somebody judges pods", every=1) == "created"

    def _container(self) -> Any:
        status = self.hami.cluster.pod("works", self.space)["status"]["containerStatuses"][0]
        return status["containerID"], status["restartCount"]

    def _lines(self) -> int:
        text = self.hami.cluster.kubectl("logs", "works", "-n", self.space)
        assert "UNLIMITED" not in text
        return text.count("held")
