"""The scheduler as processes beside a test cluster, with the rights it really gets, and nodes that are only objects.

A `Replica` is what one pod of the chart's Deployment holds: the daemon and the kube-scheduler that asks it.  The
chart's own tests run the same in pods; here replicas can be killed and looked into.
"""

from __future__ import annotations

import json
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.cluster.rig import Cluster
from tests.cluster.rig.processes import Process
from tests.cluster.rig.waiting import until

ROOT = Path(__file__).parents[2]
SYSTEM = "hami-hub"
ACCOUNT = f"system:serviceaccount:{SYSTEM}:hami-scheduler"
EVERYTHING = [{"operator": "Exists"}]  # nodes that are only objects lose their kubelet's word after a minute


def gpu_uuid(node: int, card: int) -> str:
    return "GPU-" + str(uuid.UUID(int=(node + 1) << 64 | card + 1))


def node(
    number: int, *, cards: int = 1, vram: int = 15360, register: str | None = None, split: int = 10
) -> dict[str, Any]:
    """A Node object with `cards` T4s, as the device plugin would have announced them."""
    t4 = {
        "count": split,
        "devmem": vram,
        "devcore": 100,
        "type": "NVIDIA-Tesla T4",
        "mode": "hami-core",
        "health": True,
    }
    listed = [{"id": gpu_uuid(number, card), "index": card, **t4} for card in range(cards)]
    name = f"gpu-{number:04d}"
    capacity = {"cpu": "96", "memory": "512Gi", "pods": "250", "nvidia.com/gpu": str(split * cards)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"gpu": "on", "kubernetes.io/hostname": name},
            "annotations": {"hami.io/node-nvidia-register": register if register is not None else json.dumps(listed)},
        },
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}],
        },
    }


def pod(
    name: str,
    *,
    gpumem: int | None = 3000,
    gpu: int | None = 1,
    cores: int | None = 10,
    scheduler: str = "hami-scheduler",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod that asks for a slice and never needs to run."""
    asked = {"nvidia.com/gpu": gpu, "nvidia.com/gpumem": gpumem, "nvidia.com/gpucores": cores}
    limits = {key: str(value) for key, value in asked.items() if value is not None}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "tolerations": EVERYTHING,
            "containers": [
                {"name": "main", "image": "none", "imagePullPolicy": "Never", "resources": {"limits": limits}}
            ],
            **spec,
        },
    }


class Api:
    """The API server as admin, for many quick calls."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._local = threading.local()

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """The answer's JSON; raises requests.HTTPError with the server's words."""
        session = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = requests.Session()
            session.trust_env = False
            known = yaml.safe_load(self.cluster.kubeconfig.read_text())
            session.verify = self.cluster.api._session.verify
            session.headers["Authorization"] = f"Bearer {known['users'][0]['user']['token']}"
        answer = session.request(
            method, self.cluster.api.url + path, data=json.dumps(body) if body is not None else None,
            headers={"Content-Type": content_type}, timeout=60,
        )  # fmt: skip
        if not answer.ok:
            raise requests.HTTPError(answer.text, response=answer)
        return answer.json()

    def add_node(self, manifest: dict[str, Any]) -> None:
        self.call("POST", "/api/v1/nodes", manifest)

    def create(self, namespace: str, manifest: dict[str, Any]) -> dict[str, Any]:
        return self.call("POST", f"/api/v1/namespaces/{namespace}/pods", manifest)

    def delete(self, namespace: str, name: str) -> None:
        self.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0})

    def delete_all(self, namespace: str) -> None:
        """Delete the pods of a namespace at once: on nodes that are only objects nobody ends them."""
        self.call("DELETE", f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        return self.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]

    def events(self, namespace: str, name: str) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name={name}"
        return self.call("GET", path)["items"]


class Replica:
    """One replica: its daemon and its kube-scheduler, each a process in the cluster's network."""

    def __init__(self, cluster: Cluster, number: int, config: Path) -> None:
        self.cluster, self.number, self._config = cluster, number, config
        first = 23000 + 10 * number
        self.extender, self.https, self.metrics, self._secure = range(first, first + 4)
        self._folder = cluster.folder / "log"
        self._ways: dict[int, int] = {}
        self.daemon: Process | None = None
        self.scheduler: Process | None = None

    def start(self) -> None:
        self.start_daemon()
        self.start_scheduler()

    def start_daemon(self) -> None:
        command = [
            sys.executable, "-m", "cluster.scheduler", f"--config={self._config}", f"--namespace={SYSTEM}",
            f"--kubeconfig={self.kubeconfig}", f"--extender-listen=127.0.0.1:{self.extender}",
            f"--https-listen=0.0.0.0:{self.https}", "--drain-seconds=0", f"--metrics-listen=0.0.0.0:{self.metrics}",
        ]  # fmt: skip
        self.daemon = self._spawn(command, "daemon", {"PYTHONPATH": str(ROOT)})

    def start_scheduler(self) -> None:
        configuration = self._folder / f"kube-scheduler-{self.number}.yaml"
        made = self.cluster.run(
            sys.executable, "-m", "cluster.scheduler", "kube-scheduler-config", f"--config={self._config}",
            f"--namespace={SYSTEM}", f"--kubeconfig={self.kubeconfig}", f"--extender=http://127.0.0.1:{self.extender}",
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        text = yaml.safe_load(made.stdout)
        text["leaderElection"] |= {"leaseDuration": "5s", "renewDeadline": "3s", "retryPeriod": "1s"}
        configuration.write_text(yaml.safe_dump(text))
        command = [
            "kube-scheduler", f"--config={configuration}", f"--bind-address={self.cluster.address}",
            f"--secure-port={self._secure}", "--authentication-skip-lookup=true",
            f"--cert-dir={self._folder}/cert-{self.number}",
            "-v=2",
        ]  # fmt: skip
        self.scheduler = self._spawn(command, "kube-scheduler", {})

    def stop(self, *, kill: bool = False) -> None:
        for process in (self.scheduler, self.daemon):
            if process is not None:
                process.kill() if kill else process.end()

    def ready(self) -> bool:
        return self.asked("/readyz")[0] == 200

    def wait_ready(self) -> None:
        until(self.ready, f"replica {self.number} is ready", explain=lambda: f"{self.asked('/readyz')}\n{self.log()}")

    def asked(self, path: str) -> tuple[int, str]:
        """Status and text of a page on the metrics port; (0, "") if nobody answers."""
        try:
            answer = requests.get(f"http://127.0.0.1:{self.way(self.metrics)}{path}", timeout=10)
        except requests.RequestException:
            return 0, ""
        return answer.status_code, answer.text

    def metric(self, line: str) -> float:
        """The value of the metric whose line begins so; 0 if there is none."""
        return sum(
            float(row.rpartition(" ")[2]) for row in self.asked("/metrics")[1].splitlines() if row.startswith(line)
        )

    def way(self, port: int) -> int:
        """A port on 127.0.0.1 that leads to `port` of this replica (its extender's can't be reached, by design)."""
        if port not in self._ways:
            self._ways[port] = self.cluster.forward(self.cluster.address, port)
        return self._ways[port]

    def log(self, lines: int = 40) -> str:
        path = self._folder / f"hami-daemon-{self.number}.log"
        return "\n".join(path.read_text().splitlines()[-lines:]) if path.exists() else ""

    @property
    def kubeconfig(self) -> Path:
        return self.cluster.folder / "hami-scheduler.kubeconfig"

    def _spawn(self, command: Sequence[str], what: str, env: dict[str, str]) -> Process:
        return self.cluster.spawn(command, log=self._folder / f"hami-{what}-{self.number}.log", env=env)


def rights() -> list[dict[str, Any]]:
    """ServiceAccount, roles and bindings, as the chart gives them."""

    def role(kind: str, name: str, *rules: tuple[str, str, str, str]) -> dict[str, Any]:
        named = [
            {
                "apiGroups": [group],
                "resources": resources.split(),
                "verbs": verbs.split(),
                "resourceNames": names.split(),
            }
            for group, resources, verbs, names in rules
        ]
        return {"kind": kind, "metadata": {"name": name, "namespace": SYSTEM}, "rules": named}

    def bound(kind: str, to: str, name: str, role_kind: str) -> dict[str, Any]:
        subject = {"kind": "ServiceAccount", "name": "hami-scheduler", "namespace": SYSTEM}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": to}
        return {
            "kind": kind,
            "metadata": {"name": name, "namespace": SYSTEM},
            "subjects": [subject],
            "roleRef": reference,
        }

    objects: list[dict[str, Any]] = [
        role(
            "ClusterRole", "hami-scheduler",
            ("", "nodes pods", "get list watch", ""),
            ("", "pods/binding events", "create", ""),
            ("", "pods/status", "patch", ""),
            ("authentication.k8s.io", "tokenreviews", "create", ""),
            ("authorization.k8s.io", "subjectaccessreviews", "create", ""),
            ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "get patch", "hami-hub"),
        ),
        role(
            "Role", "hami-scheduler",
            ("", "secrets", "create", ""),
            ("", "secrets", "get update", "hami-hub-certs"),
            ("", "configmaps", "create", ""),
            ("", "configmaps", "get patch", "hami-hub"),
            ("coordination.k8s.io", "leases", "get create update", ""),
        ),
        bound("ClusterRoleBinding", "hami-scheduler", "hami-scheduler", "ClusterRole"),
        bound("ClusterRoleBinding", "system:kube-scheduler", "hami-scheduler-kube", "ClusterRole"),
        bound("ClusterRoleBinding", "system:volume-scheduler", "hami-scheduler-volumes", "ClusterRole"),
        bound("RoleBinding", "hami-scheduler", "hami-scheduler", "Role"),
    ]  # fmt: skip
    for each in objects:
        each["apiVersion"] = "rbac.authorization.k8s.io/v1"
    reader = {
        "kind": "ClusterRole",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": {"name": "hami-hub-inventory-reader"},
    }
    reader["rules"] = [{"nonResourceURLs": ["/hami/inventory"], "verbs": ["get"]}]
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "hami-scheduler", "namespace": SYSTEM},
    }
    return [account, reader, *objects]


def webhook(cluster: Cluster, replica: Replica) -> list[dict[str, Any]]:
    """The Service that leads to the replica, and the webhook's configuration without its CA."""
    named = {"name": "hami-scheduler", "namespace": SYSTEM}
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": named,
        "spec": {"ports": [{"port": 443, "targetPort": replica.https}]},
    }  # fmt: skip
    ends = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {**named, "labels": {"kubernetes.io/service-name": named["name"]}},
        "endpoints": [{"addresses": [cluster.address], "conditions": {"ready": True}}],
        "ports": [{"port": replica.https, "protocol": "TCP", "name": ""}],
    }  # fmt: skip
    asks = "has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(k, k.startsWith('nvidia.com/gpu'))"
    some = f"(object.spec.containers + object.spec.?initContainers.orValue([])).exists(c, {asks})"
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hami-hub"},
        "webhooks": [{
            "name": "slices.hami.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "clientConfig": {"service": {"name": "hami-scheduler", "namespace": SYSTEM, "path": "/webhook"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "matchConditions": [{"name": "asks", "expression": some}],
        }],
    }  # fmt: skip
    return [service, ends, configuration]


@contextmanager
def installed(cluster: Cluster, *, settings: dict[str, Any] | None = None) -> Iterator[Path]:
    """The rights and the namespace, and a config.yaml; gives its path."""
    if cluster.get(f"/api/v1/namespaces/{SYSTEM}") is None:
        cluster.kubectl("create", "namespace", SYSTEM)
    cluster.apply(*rights())
    token = cluster.kubectl("create", "token", "hami-scheduler", f"--namespace={SYSTEM}", "--duration=8h").strip()
    known = yaml.safe_load(cluster.kubeconfig_inside.read_text())
    known["users"][0]["user"] = {"token": token}
    (cluster.folder / "hami-scheduler.kubeconfig").write_text(yaml.safe_dump(known))
    config = cluster.folder / "hami-config.yaml"
    config.write_text(yaml.safe_dump(settings or {"scheduler": {"hubNamespaces": [SYSTEM]}}))
    yield config
    cluster.kubectl("delete", "mutatingwebhookconfiguration", "hami-hub", "--ignore-not-found")


def bound_node(manifest: dict[str, Any]) -> str:
    return manifest["spec"].get("nodeName", "")


def over_committed(pods: Sequence[dict[str, Any]], vram: int = 15360, split: int = 10) -> list[str]:
    """Cards that were promised more than they have, by what the pods' annotations say."""
    held: dict[str, list[int]] = {}
    for each in pods:
        if bound_node(each):
            for container in json.loads(each["metadata"]["annotations"]["hami.io/slices"]).values():
                for share in container["shares"]:
                    sums = held.setdefault(share["uuid"], [0, 0, 0])
                    for index, amount in enumerate((1, share["vram"], share["cores"])):
                        sums[index] += amount
    return [card for card, (slices, used, cores) in held.items() if slices > split or used > vram or cores > 100]


class Nodes:
    """Nodes that are only objects, numbered so that no two tests of a run share one; gone after the test."""

    _next = 0

    def __init__(self, api: Api) -> None:
        self._api = api
        self.names: list[str] = []

    def add(self, count: int = 1, **kind: Any) -> list[str]:
        """Make `count` nodes of this kind (see `node`); their names."""
        made = []
        for _ in range(count):
            manifest = node(Nodes._next, **kind)
            Nodes._next += 1
            self._api.add_node(manifest)
            made.append(manifest["metadata"]["name"])
        self.names += made
        return made

    def only(self, *names: str) -> dict[str, Any]:
        """Spec of a pod that goes to these nodes only: other tests' nodes may be about."""
        wanted = [{"key": "kubernetes.io/hostname", "operator": "In", "values": list(names or self.names)}]
        required = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
        }
        return {"affinity": {"nodeAffinity": required}}

    def remove(self) -> None:
        for name in self.names:
            self._api.call("DELETE", f"/api/v1/nodes/{name}")
        self.names = []


# The fixtures of the tests that import them.


@pytest.fixture(name="api")
def give_api(cluster: Cluster) -> Api:
    return Api(cluster)


@pytest.fixture(name="nodes")
def give_nodes(api: Api) -> Iterator[Nodes]:
    nodes = Nodes(api)
    yield nodes
    nodes.remove()


@pytest.fixture(name="space")
def give_space(api: Api, nodes: Nodes, namespace: str) -> Iterator[str]:
    """A namespace whose pods are gone at the end: no kubelet would end them."""
    yield namespace
    api.delete_all(namespace)
