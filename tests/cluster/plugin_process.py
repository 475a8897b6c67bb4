"""The device plugin as a process on a node of the cluster, on simulated cards, with the rights that the chart gives it.

Pods are bound by the tests themselves: the decision that the scheduler would write is part of the binding.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.codec import decision_annotations, decode_node_register
from hami_hub.core.names import NODE_REGISTER
from hami_hub.core.slices import CardShare, Placement
from hami_hub.core.units import Mib, Percent
from tests.cluster.kubelet_slots import slots
from tests.cluster.rig import Cluster, Node, images
from tests.cluster.rig.processes import Process

RESOURCE = "nvidia.com/gpu"
NAME = "hami-device-plugin"
RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
]
PORT = 19394
# root, but with no capability at all, as the chart's container
UNPRIVILEGED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


@dataclass
class PluginOnNode:
    """The plugin on one node; `settings` is its section of config.yaml."""

    cluster: Cluster
    node: Node
    settings: dict[str, Any]
    port: int = PORT
    _process: Process | None = None

    @property
    def log(self) -> Path:
        return self.cluster.folder / f"plugin-{self.node.name}.log"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.alive

    def start(self, *, slots: int = 20) -> None:
        """Start it, and wait until it is ready and the kubelet gives out so many slots of it."""
        self._rights()
        config = self.cluster.folder / f"plugin-{self.node.name}.yaml"
        config.write_text(json.dumps({"devicePlugin": self.settings}))
        command = [*UNPRIVILEGED, sys.executable, "-m", "cluster.deviceplugin", "--config", str(config)]
        command += ["--node-name", self.node.name, "--kubeconfig", str(self._kubeconfig()), "--look-seconds", "1"]
        command += ["--grace-seconds", "3", "--listen", f"0.0.0.0:{self.port}"]
        env = {"PYTHONPATH": str(images.REPOSITORY), "PYTHONUNBUFFERED": "1"}
        self._process = self.node.spawn(command, log=self.log, env=env)
        self.wait_slots(slots)

    def wait_slots(self, number: int = 20) -> None:
        """Until it is ready, and the kubelet gives out so many slots of it."""

        def look() -> bool:
            return slots(self.node, RESOURCE) == number and self.get("/readyz") == "ok\n"

        self.cluster.wait_for(look, f"the plugin is ready and the kubelet gives out {number} slots")

    def stop(self, *, kill: bool = False) -> None:
        if self._process is not None:
            self._process.kill() if kill else self._process.end(grace=15)
            self._process = None

    def get(self, path: str) -> str:
        """What its HTTP side answers; "" if it doesn't."""
        url = f"http://{self.node.address}:{self.port}{path}"
        done = self.cluster.run("curl", "-sS", "--max-time", "30", "--noproxy", "*", url)
        return str(done.stdout)

    def metric(self, name: str, **labels: str) -> float | None:
        """One figure of /metrics."""
        for line in self.get("/metrics").splitlines():
            if line.startswith(name) and all(f'{key}="{value}"' in line for key, value in labels.items()):
                return float(line.rsplit(" ", 1)[1])
        return None

    def cards(self) -> tuple[Card, ...]:
        """The cards that the node's annotation lists."""
        node = self.cluster.get(f"/api/v1/nodes/{self.node.name}")
        return decode_node_register(node["metadata"]["annotations"][NODE_REGISTER])

    def allocatable(self) -> int:
        """How many slots the API server knows of: what schedulers go by."""
        node = self.cluster.get(f"/api/v1/nodes/{self.node.name}")
        return int(node["status"].get("allocatable", {}).get(RESOURCE, 0))

    def simulated(self, code: str) -> str:
        """What a Python program on the node prints that has the simulated NVML as `nvml`."""
        prelude = (
            "import ctypes, os, glob\n"
            "os.environ['HAMI_SIM_DIR'] = '/run/hami/sim'\n"
            "nvml = ctypes.CDLL(glob.glob('/usr/local/vgpu/sim.*/libnvidia-ml.so.1')[0])\n"
            "nvml.hamisim_raise_xid.argtypes = [ctypes.c_uint, ctypes.c_uint64]\n"
        )
        done = self.node.exec([sys.executable, "-c", prelude + code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    def _rights(self) -> None:
        account = {"kind": "ServiceAccount", "name": NAME, "namespace": "kube-system"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
        self.cluster.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME, "namespace": "kube-system"}},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRole",
                "metadata": {"name": NAME},
                "rules": RULES,
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": NAME},
                "roleRef": role,
                "subjects": [account],
            },
        )

    def _kubeconfig(self) -> Path:
        """The admin's, with the token of the plugin's own account."""
        path = self.cluster.folder / f"plugin-{self.node.name}.kubeconfig"
        admin = json.loads(
            self.cluster.kubectl(
                f"--kubeconfig={self.cluster.kubeconfig_inside}", "config", "view", "--raw", "-o", "json"
            )
        )
        admin["users"][0]["user"] = {
            "token": self.cluster.kubectl("create", "token", NAME, "-n", "kube-system").strip()
        }
        path.write_text(json.dumps(admin))
        return path


def placement(*uuids: str, vram: int, cores: int = 0) -> Placement:
    """The same share of each card."""
    return Placement(tuple(CardShare(CardUuid(uuid), Mib(vram), Percent(cores)) for uuid in uuids))


def slice_pod(name: str, command: list[str], *, namespace: str, cards: int = 1, **spec: Any) -> dict[str, Any]:
    """A pod that asks for cards and that no scheduler looks after."""
    spec.setdefault("schedulerName", "hami-scheduler")
    return images.host_pod(name, command, namespace=namespace, limits={RESOURCE: cards}, **spec)


def bind(cluster: Cluster, pod: Mapping[str, Any], node: str, slices: Mapping[str, Placement] | None) -> None:
    """Bind a pod as the scheduler does; without `slices`, as any other would."""
    meta, spec = pod["metadata"], pod["spec"]
    containers = [each["name"] for each in (*spec.get("initContainers", ()), *spec["containers"])]
    annotations = {} if slices is None else decision_annotations(node, slices, containers, at=int(time.time()))
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    cluster.api.request("POST", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding", binding)


def create(cluster: Cluster, pod: Mapping[str, Any]) -> None:
    cluster.api.request("POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)


def run_pod(
    cluster: Cluster, pod: Mapping[str, Any], node: str, slices: Mapping[str, Placement] | None, *, wait: bool = True
) -> None:
    """Create and bind it, and wait until it runs."""
    create(cluster, pod)
    bind(cluster, pod, node, slices)
    if wait:
        cluster.wait_pod(pod["metadata"]["name"], "Running", namespace=pod["metadata"]["namespace"])


def in_pod(cluster: Cluster, name: str, *command: str, namespace: str, container: str = "main") -> str:
    """What a command prints in a container: a new process, as `kubectl exec` makes it."""
    return cluster.kubectl("exec", "-n", namespace, name, "-c", container, "--", *command).strip()


def why_waiting(cluster: Cluster, name: str, namespace: str) -> str:
    """The kubelet's word on why the pod's container doesn't start; "" if there is none yet."""
    pod = cluster.pod(name, namespace)
    statuses = pod["status"].get("containerStatuses") or [] if pod else []
    return " ".join(str(each.get("state", {}).get("waiting", {}).get("message", "")) for each in statuses).strip()


def pod_log(cluster: Cluster, name: str, namespace: str) -> str:
    """What its container wrote: the kubelet's file, which is there when the container has ended."""
    return cluster.kubectl("logs", "-n", namespace, name).strip()


def node_events(cluster: Cluster) -> list[dict[str, Any]]:
    found = cluster.get("/api/v1/namespaces/default/events")["items"]
    return [event for event in found if event["source"].get("component") == "hami-device-plugin"]


def restarts(cluster: Cluster, name: str, namespace: str) -> int:
    """How often the container was restarted; -1 while it doesn't run."""
    (status,) = cluster.pod(name, namespace)["status"]["containerStatuses"]
    return int(status["restartCount"]) if "running" in status["state"] else -1


def pod_uid(cluster: Cluster, name: str, namespace: str) -> str:
    return str(cluster.pod(name, namespace)["metadata"]["uid"])


def container_pid(uid: str, command: list[str]) -> int:
    """The first process of a pod's container, as this machine numbers it; 0: there is none."""
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        with contextlib.suppress(OSError):
            found = path.with_name("cmdline").read_bytes().split(b"\0")[:-1]
            if uid in path.read_text() and [part.decode() for part in found] == command:
                return int(path.parent.name)
    return 0


def started_at(cluster: Cluster, name: str, namespace: str) -> list[tuple[str, int]]:
    """Each container's own ID and how often it was restarted."""
    statuses = cluster.pod(name, namespace)["status"].get("containerStatuses", [])
    return [(each["containerID"], each["restartCount"]) for each in statuses]
