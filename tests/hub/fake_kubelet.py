"""Gives the pods of a fake cluster a life: each is a process of this machine, at an address of its own.

The scheduler and the node are played too: a pod that asks for a GPU gets the slice that it asks for, if `room` says so.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from fake_cluster import FakeCluster, limits_of, running

LOG = "Your server ended"


class FakeKubelet:
    """`with FakeKubelet(cluster, folder, port): ...`.

    Attributes:
        room: whether a pod gets a place, by its name; asked once, and again when `look_again` is called.
    """

    def __init__(self, cluster: FakeCluster, folder: Path, port: int) -> None:
        self.room: Callable[[str], bool] = lambda name: True
        self._cluster, self._folder, self._port = cluster, folder, port
        self._numbers = count(1)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()  # whoever starts a pod's process, or ends it
        self._again = threading.Condition()
        self._over = False

    def __enter__(self) -> FakeKubelet:
        self._cluster.life, self._cluster.end = self._run, self._kill
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self.look_again()
        for name in list(self._processes):
            self._kill(name)

    def look_again(self) -> None:
        """What waited may have room now."""
        with self._again:
            self._again.notify_all()

    def process(self, name: str) -> subprocess.Popen[bytes]:
        """The process of a pod."""
        return self._processes[name]

    def _run(self, name: str) -> None:
        made = pod = self._cluster.pod(name)
        uid = str(made["metadata"]["uid"]) if made is not None else ""
        with self._again:
            while pod is not None and not self.room(name) and not self._over:
                self._again.wait(0.1)
                pod = self._there(name, uid)
        if pod is None or self._over:
            return
        limits = limits_of(pod)
        if limits:
            vram, cores = int(limits["nvidia.com/gpumem"]), int(limits["nvidia.com/gpucores"])
            self._cluster.place(name, vram=vram, cores=cores, uid=uid)
        else:
            self._cluster.status(name, {"phase": "Pending"}, node="node-a", uid=uid)
        address = f"127.1.{os.getpid() % 250}.{next(self._numbers)}"
        with self._lock:
            if self._there(name, uid) is None or self._over:
                return
            process = self._processes[name] = self._start(pod, address)
        self._cluster.status(name, running(self._port, address), uid=uid)
        code = process.wait()
        ended = {"name": "notebook", "ready": False, "state": {"terminated": {"exitCode": code, "reason": "Error"}}}
        self._cluster.status(name, {"phase": "Failed", "containerStatuses": [ended]}, uid=uid)

    def _there(self, name: str, uid: str) -> dict[str, Any] | None:
        """The pod, and no later one of its name."""
        pod = self._cluster.pod(name)
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    def _start(self, pod: dict[str, Any], address: str) -> subprocess.Popen[bytes]:
        [container] = pod["spec"]["containers"]
        home = self._folder / pod["metadata"]["name"]
        home.mkdir(exist_ok=True)
        own = {each["name"]: each.get("value") or "" for each in container["env"]}
        own["JUPYTERHUB_SERVICE_URL"] = own["JUPYTERHUB_SERVICE_URL"].replace("0.0.0.0", address)
        return subprocess.Popen(container["args"], env={"PATH": os.environ["PATH"], "HOME": str(home), **own})

    def _kill(self, name: str) -> None:
        with self._lock:
            process = self._processes.pop(name, None)
        if process is not None:
            process.kill()
