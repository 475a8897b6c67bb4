"""HAMi Hub installed by its chart on a cluster of its own: what the tests of a whole installation stand on.

node0 has a simulated T4 and is tainted, as nodes with cards often are; node1 has nothing.  `Hami` is what a test asks:
it upgrades the release, starts pods on slices and looks into them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import release_images as images_of_release
from tests.cluster.kubelet_slots import slots
from tests.cluster.rig import Cluster, images

CHART = Path(__file__).resolve().parents[2] / "helm" / "hami-hub"
RELEASE = NAMESPACE = "hami-hub"
ROOMY = 6 << 30  # bytes; a third of it is used
SLEEP = ("sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait")  # unlike sleep itself it ends when it is told to
TAINT = "nvidia.com/gpu"
TOLERATION = {"key": TAINT, "operator": "Exists", "effect": "NoSchedule"}
# As the published walk-through of HAMi installs it.
BASE_VALUES = (
    "scheduler.kubeScheduler.imageTag=v1.36.1",
    "devicePlugin.tolerations[0].key=nvidia.com/gpu",
    "devicePlugin.tolerations[0].operator=Exists",
    "devicePlugin.tolerations[0].effect=NoSchedule",
    "devicePlugin.simulatedCards.count=1",
    "hub.namespaces={hub}",
)
COUNT, MEMORY, PERCENTAGE, CORES, PRIORITY = (
    f"nvidia.com/{name}" for name in ("gpu", "gpumem", "gpumem-percentage", "gpucores", "priority")
)


class Hami:
    """A release on a cluster."""

    def __init__(self, cluster: Cluster, build: str) -> None:
        self.cluster = cluster
        # images of another build have the same tag: their pods are started anew
        self._build = [f"{each}.podAnnotations.build={build}" for each in ("scheduler", "devicePlugin")]
        self.name = cluster.name
        self.describe = cluster.describe

    def install(self, *values: str, base: Sequence[str] = BASE_VALUES) -> str:
        """`helm upgrade --install` with these values, until only its new pods do the work; what helm printed."""
        sets = [word for each in (*base, *self._build, *values) for word in ("--set", each)]
        result = self.cluster.helm(
            "upgrade", RELEASE, str(CHART), "--install", "--namespace", NAMESPACE, "--create-namespace", *sets,
            "--wait", "--timeout", "240s",
        )  # fmt: skip
        if result.returncode:
            raise AssertionError(f"helm failed: {result.stderr.strip()}\n{self.describe()}")
        # old ones go on judging pods by the old values until they have ended
        self.cluster.wait_for(lambda: not self._ending(), "the pods of before have ended")
        renamed = [each.partition("=")[2] for each in values if each.startswith("resourceName=")]
        self.wait_webhook((renamed or [COUNT])[-1])
        return result.stdout

    def uninstall(self) -> str:
        result = self.cluster.helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", "150s")
        assert result.returncode == 0, result.stderr
        return result.stdout

    @contextmanager
    def values(self, *values: str) -> Iterator[None]:
        """The release with other values, for a while."""
        self.install(*values)
        self.wait_cards()
        try:
            yield
        finally:
            self.install()
            self.wait_cards()

    def label(self, node: str, on: bool = True) -> None:
        """Share the cards of a node, or don't."""
        self.cluster.kubectl("label", "node", node, "gpu=on" if on else "gpu-")

    def wait_webhook(self, resource: str = COUNT) -> None:
        """Until the API server shows the webhook a pod that asks for cards."""
        asks = slice_pod("asks", {resource: 1}, namespace="default")

        def look() -> bool:
            pod = self.cluster.would_create(asks)
            return pod is not None and pod["spec"]["schedulerName"] != "default-scheduler"

        self.cluster.wait_for(look, "the API server reaches the webhook")

    def wait_cards(self, *nodes: str) -> None:
        """Until the nodes (node0) tell of their cards, and kubelet and API server have as many slots as they offer."""
        for name in nodes or ("node0",):
            self.cluster.wait_for(lambda name=name: self._cards_ready(name), f"{name} has its cards")  # type: ignore[misc]

    def _cards_ready(self, name: str) -> bool:
        offered = sum(card["count"] for card in self.register(name))
        (node,) = (each for each in self.cluster.nodes if each.name == name)
        allocatable = self.node(name)["status"]["allocatable"]
        return offered > 0 and any(
            allocatable.get(each) == str(offered) and slots(node, each) == offered
            for each in (COUNT, "example.com/gpu")
        )

    def wait_no_cards(self, node: str) -> None:
        """Until nothing can be placed on a node whose plugin has gone."""

        def look() -> bool:
            there = any(pod["spec"].get("nodeName") == node for pod in self.pods("device-plugin"))
            return not there and self.node(node)["status"]["allocatable"].get(COUNT, "0") == "0"

        self.cluster.wait_for(look, f"the plugin has left {node}, which has no slots")

    def node(self, name: str = "node0") -> Any:
        return self.cluster.get(f"/api/v1/nodes/{name}")

    def register(self, node: str = "node0") -> list[dict[str, Any]]:
        """What the node tells of its cards."""
        text = self.node(node)["metadata"].get("annotations", {}).get("hami.io/node-nvidia-register", "[]")
        return list(json.loads(text))

    def pods(self, component: str) -> list[Any]:
        """The release's pods: of the "scheduler", or the "device-plugin"."""
        return [pod for pod in self._pods(component) if "deletionTimestamp" not in pod["metadata"]]

    def _ending(self) -> list[Any]:
        found = [*self._pods("scheduler"), *self._pods("device-plugin")]
        return [pod for pod in found if "deletionTimestamp" in pod["metadata"]]

    def _pods(self, component: str) -> list[Any]:
        selector = f"app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component={component}"
        return list(self.cluster.get(f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={selector}")["items"])

    def create(self, manifest: dict[str, Any]) -> str:
        """Create a pod; the API server's refusal, or nothing."""
        result = self.cluster.kubectl_run("create", "-f", "-", stdin=json.dumps(manifest))
        return result.stderr.strip() if result.returncode else ""

    def pod(
        self,
        name: str,
        limits: Mapping[str, str | int],
        *,
        namespace: str,
        command: Sequence[str] = SLEEP,
        wait: bool = True,
        **more: Any,
    ) -> Any:
        """A pod of this machine's programs with these limits, running; `more` is what images.host_pod takes."""
        refused = self.create(slice_pod(name, limits, namespace=namespace, command=command, **more))
        assert not refused, refused
        return self.cluster.wait_pod(name, namespace=namespace) if wait else None

    def delete(self, *names: str, namespace: str) -> None:
        """Delete pods at once, and wait until they are gone."""
        self.cluster.kubectl("delete", "pod", *names, "-n", namespace, "--grace-period=0", "--force")
        for name in names:
            self.cluster.wait_for(lambda name=name: self.cluster.pod(name, namespace) is None, f"{name} is gone")  # type: ignore[misc]

    def exec(self, pod: str, *command: str, namespace: str, container: str = "main") -> str:
        """What a command in a running container prints."""
        return self.cluster.kubectl("exec", "-n", namespace, pod, "-c", container, "--", *command)

    def python(self, pod: str, code: str, *, namespace: str) -> str:
        """What Python code in a container prints; what it writes to stderr comes too."""
        result = self.cluster.kubectl_run("exec", "-n", namespace, pod, "--", "python", "-c", code)
        return result.stdout + result.stderr

    def smi(self, pod: str, *arguments: str, namespace: str) -> str:
        """What `hami-hub smi` prints in a container: nvidia-smi for the simulated card."""
        return self.exec(pod, "python", "-m", "hami_hub.cli", "smi", *arguments, namespace=namespace)

    def slices(self, pod: str, namespace: str) -> Any:
        """What the scheduler decided: container -> its shares and more."""
        return json.loads(self.cluster.pod(pod, namespace)["metadata"]["annotations"]["hami.io/slices"])

    def events(self, pod: str, namespace: str, reason: str = "") -> list[str]:
        """Messages of a pod's events, of one reason or of all."""
        found = self.cluster.get(f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name={pod}")
        return [each["message"] for each in found["items"] if reason in ("", each["reason"])]

    def requests(self, word: str) -> list[dict[str, Any]]:
        """What the API server wrote down of the requests whose record has that word, oldest first."""
        return self.cluster.audit_events(word)

    def wait_event(self, pod: str, namespace: str, reason: str, word: str = "") -> str:
        """The first event of that reason whose message has that word."""

        def look() -> str | None:
            return next((text for text in self.events(pod, namespace, reason) if word in text), None)

        return self.cluster.wait_for(look, f"{pod} has an event {reason} {word}")


def slice_pod(name: str, limits: Mapping[str, str | int], **more: Any) -> dict[str, Any]:
    """A pod's manifest as a user of tainted nodes writes it."""
    more = {"tolerations": [TOLERATION], "command": SLEEP, **more}
    command = more.pop("command")
    return images.host_pod(name, command, limits=limits, **more)


@pytest.fixture(scope="session")
def release_images() -> list[Path]:
    """Archives of the images that the chart names."""
    return images_of_release.ensure()


@pytest.fixture(scope="session")
def hami(release_images: list[Path]) -> Iterator[Hami]:
    """The chart, installed on two nodes of which node0 has a simulated T4.

    HAMI_TEST_RELEASE names a cluster that is running (`python -m tests.cluster.rig up --nodes 2 --audit --name ...`):
    then it is used, and left as it is.
    """
    if running := os.environ.get("HAMI_TEST_RELEASE"):
        yield _installed(Cluster(running).attach(), release_images)
    else:
        name = f"pytest-{os.getpid()}-hami"
        with Cluster(name, nodes=2, audit=True, folder=_in_memory(name)) as cluster:
            yield _installed(cluster, release_images)


def _in_memory(name: str) -> Path | None:
    """A folder for the cluster on tmpfs, if there is room: a disk may take a minute to remove two nodes' images."""
    shared = shutil.disk_usage("/dev/shm")
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Path("/dev/shm", f"hami-cluster-{name}") if min(shared.free, available) > ROOMY else None


def _installed(cluster: Cluster, archives: list[Path]) -> Hami:
    cluster.load(*archives)
    cluster.kubectl("taint", "node", "node0", f"{TAINT}=present:NoSchedule", "--overwrite")
    cluster.kubectl_run("create", "namespace", "hub")
    release = Hami(cluster, archives[0].parent.name)
    release.install()
    release.label("node0")
    release.wait_cards()
    return release


@pytest.fixture
def space(hami: Hami) -> Iterator[str]:
    """A namespace on the cluster of `hami` for one test, empty afterwards."""
    name = f"space-{os.urandom(3).hex()}"
    with hami.cluster.namespace(name):
        yield name
