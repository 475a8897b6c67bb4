"""A whole cluster, from its start to its end; `node` and `control` say what it is made of, `images` what runs in it.

A cluster is known by its name, in this process and any other: `Cluster("x").attach()` finds the one that
`python -m tests.cluster.rig up --name x` started.  Several may run at once and never meet.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.cluster.rig import cgroups, images, network, pki, programs, relay
from tests.cluster.rig.api import Api
from tests.cluster.rig.component import Component
from tests.cluster.rig.control import USERS, ControlPlane
from tests.cluster.rig.diagnosis import describe
from tests.cluster.rig.machine import Machine, search_path
from tests.cluster.rig.node import OVERLAID, Node
from tests.cluster.rig.processes import Process
from tests.cluster.rig.waiting import PATIENCE, T, until

NAME_LIMIT = 40


class ClusterError(RuntimeError):
    """The cluster can't be started or found; the text says why and what to do."""


class Cluster:
    """A Kubernetes cluster of its own: `with Cluster("mine", nodes=2) as cluster: cluster.kubectl("get", "nodes")`.

    Attributes:
        etcd, apiserver, controller_manager, scheduler, proxy, dns: parts to stop, start and restart.
        nodes: each with its kubelet and containerd.
        control: the machine on which the control plane runs; programs run there are in the cluster's network.
        kubeconfig: for programs of this machine, as admin.
        kubeconfig_inside: for programs in the cluster's network.
    """

    def __init__(self, name: str, *, nodes: int = 1, folder: Path | None = None, audit: bool = False) -> None:
        if not name.replace("-", "").isalnum() or len(name) > NAME_LIMIT:
            raise ClusterError(f'The name "{name}" won\'t do: use up to {NAME_LIMIT} letters, digits and hyphens.')
        if not 1 <= nodes <= network.MAX_NODES:
            raise ClusterError(f"{nodes} nodes won't do: ask for 1 to {network.MAX_NODES}.")
        self.name = name
        self.handle = handle(name)
        self.folder = (folder or self.handle).absolute()
        self.audit = audit
        self._node_count = nodes
        self._cgroup = f"hami-cluster-{name}"
        self._assemble()

    def _assemble(self) -> None:
        folder = self.folder
        self.control = Machine("control", folder)
        self._pki = pki.Pki(folder / "pki")
        self._plane = ControlPlane(folder, self._pki, lambda: self.audit)
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig_inside = Path(self._pki.kubeconfig(pki.ADMIN))
        plane, env = self._plane, {"PATH": search_path(programs.folder())}

        def component(name: str, command: Callable[[], list[str]], port: int) -> Component:
            return Component(name, self.control, command, env=env, ready=lambda: self._listens(port))

        self.etcd = component("etcd", plane.etcd, 2379)
        # It waits for its watchers to go, who don't.
        self.apiserver = Component(
            "apiserver", self.control, plane.apiserver, env=env, ready=lambda: self.api.ready(), grace=2
        )
        self.controller_manager = component("controller-manager", plane.controller_manager, 10257)
        self.scheduler = component("scheduler", plane.scheduler, 10259)
        self.proxy = component("proxy", plane.proxy, 10256)
        self.dns = component("dns", plane.dns, 53)
        self.nodes = [
            Node(
                index,
                self._node_count,
                cgroup=self._cgroup,
                control=self.control,
                folder=folder,
                pki=self._pki,
                api=lambda: self.api,
            )
            for index in range(self._node_count)
        ]
        plane_parts = [self.etcd, self.apiserver, self.controller_manager, self.scheduler, self.proxy, self.dns]
        node_parts = [part for node in self.nodes for part in (node.containerd, node.kubelet)]
        self.components = {part.name: part for part in (*plane_parts, *node_parts)}

    @property
    def running(self) -> bool:
        return self.control.running

    @property
    def address(self) -> str:
        """Where programs run by `spawn` and `run` can be reached from pods."""
        return network.CONTROL

    def start(self, *, dies_with_us: bool = True) -> Cluster:
        """Start everything, and return when all nodes are Ready.

        With `dies_with_us` the cluster is killed when the calling thread ends, even by SIGKILL.
        """
        programs.ensure()
        self._claim()
        try:
            self._begin(dies_with_us=dies_with_us)
        except Exception as error:
            logs = self.keep_logs()
            self.stop()
            raise ClusterError(f"The cluster {self.name} didn't start; its logs are in {logs}. {error}") from error
        except BaseException:
            self.stop()
            raise
        return self

    def attach(self) -> Cluster:
        """Become the running cluster of that name, whoever started it."""
        self._find()
        if not self.running:
            raise ClusterError(f"The cluster {self.name} is dead: clean up with `down --name {self.name}`.")
        return self

    def _find(self) -> None:
        try:
            state = json.loads((self.handle / "cluster.json").read_text())
        except FileNotFoundError as error:
            how = f"start it with `up --name {self.name}`"
            raise ClusterError(f"No cluster named {self.name} is running here: {how}.") from error
        self.folder, self._node_count, self.audit = self.handle.resolve(), state["nodes"], state["audit"]
        self._assemble()
        self.api = Api(state["port"], self._pki)

    def stop(self) -> None:
        """End everything in it, and remove what is left: folders, cgroups. Harmless when not running."""
        for node in reversed(self.nodes):
            node.machine.stop()
        self.control.stop()
        cgroups.remove(self._cgroup)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.handle.is_symlink():
            self.handle.unlink()

    def wait_end(self) -> None:
        """Return when somebody else has ended it."""
        while self.control.init and not self.control.init.wait(3600):
            pass

    def clean(self) -> None:
        """End the cluster of that name whoever started it, even if it died half-way."""
        try:
            self._find()
        except ClusterError:
            self.folder = self.handle.resolve()
            self._assemble()
        self.stop()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _claim(self) -> None:
        """Make the folder, which only one can."""
        for place in OVERLAID:
            if self.folder.is_relative_to(place):
                raise ClusterError(f"{self.folder} won't do, nodes have a {place} of their own: take another folder.")
        if self.handle.exists():
            init = Process.load(self.handle / "control.pid")
            state = "is running" if init and init.alive else "is just being started, or has left files,"
            ways = f"take another name, or end it with `down --name {self.name}`"
            raise ClusterError(f"A cluster named {self.name} {state} in {self.handle}: {ways}.")
        try:
            self.folder.mkdir(parents=True)
        except FileExistsError as error:
            raise ClusterError(f"{self.folder} is there already: name a folder that isn't.") from error
        if self.folder != self.handle:
            self.handle.unlink(missing_ok=True)
            self.handle.symlink_to(self.folder)

    def _begin(self, *, dies_with_us: bool) -> None:
        (self.folder / "log").mkdir()
        self._pki.make([*USERS, *(f"system:node:{node.name}" for node in self.nodes)])
        self._plane.write_files()
        init = programs.folder() / "pause"
        resolv = str(self.folder / "resolv.conf")
        addresses = [node.address for node in self.nodes]
        self.control.start(network.SETUP, resolv, *addresses, init=init, dies_with_us=dies_with_us)
        self.etcd.start(wait=False)
        self.apiserver.start(wait=False)
        for node in self.nodes:
            cgroups.make(node.cgroup)
            node.begin()
        self._open_api()
        with ThreadPoolExecutor() as pool:
            loading = pool.submit(self.load, *images.standard(self.folder / "images"))
            self.apiserver.wait_ready()
            for part in (self.controller_manager, self.scheduler, self.proxy, self.dns):
                part.start(wait=False)
            loading.result()
        for node in self.nodes:
            node.kubelet.start(wait=False)
        for part in self.components.values():
            part.wait_ready()
        for node in self.nodes:
            self.wait_for(node.is_ready, f"{node.name} is Ready")
        self.wait_for(lambda: self.get("/api/v1/namespaces/default/serviceaccounts/default"), "pods may be created")

    def _open_api(self) -> None:
        port = self.forward(network.CONTROL, network.API_PORT)
        self.api = Api(port, self._pki)
        pki.write_kubeconfig(self.kubeconfig, self.api.url, self._pki.ca, self._pki.token(pki.ADMIN))
        state = {"nodes": self._node_count, "audit": self.audit, "port": port}
        (self.folder / "cluster.json").write_text(json.dumps(state))

    def _listens(self, port: int) -> bool:
        try:
            self.control.connect(network.CONTROL, port).close()
        except OSError:
            return False
        return True

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True, timeout: float = 120) -> str:
        """What `kubectl ARGUMENTS` prints to stdout; raises AssertionError with stderr when it fails."""
        result = self.kubectl_run(*arguments, stdin=stdin, timeout=timeout)
        if check and result.returncode:
            raise AssertionError(f"kubectl {' '.join(arguments)} failed: {result.stderr.strip()}")
        return result.stdout

    def kubectl_run(
        self, *arguments: str, stdin: str | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """`kubectl ARGUMENTS` with all that it gives back."""
        command = [str(programs.folder() / "kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout)

    def would_create(self, manifest: dict[str, Any]) -> Any:
        """What this would become by all who have a say in it; None: they refuse it, or can't be asked."""
        command = ("create", "--dry-run=server", "--output=json", "-f", "-")
        result = self.kubectl_run(*command, stdin=json.dumps(manifest))
        return json.loads(result.stdout) if result.returncode == 0 else None

    def can_exec(self, pod: str, namespace: str = "default") -> bool:
        """Can a program be run in a pod?  Not for a while after containerd has come back."""
        return self.kubectl_run("exec", "-n", namespace, pod, "--", "true").returncode == 0

    def helm(self, *arguments: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """`helm ARGUMENTS` on this cluster, with nothing of the person's own helm in it."""
        home = self.folder / "helm"
        homes = {f"HELM_{kind}_HOME": str(home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        command = [str(programs.folder() / "helm"), f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(command, env={**os.environ, **homes}, capture_output=True, text=True, timeout=timeout)

    def apply(self, *manifests: dict[str, Any] | str) -> str:
        """Create or change what the manifests say; each is an object, or YAML text."""
        texts = (each if isinstance(each, str) else json.dumps(each) for each in manifests)
        return self.kubectl("apply", "-f", "-", stdin="\n---\n".join(texts))

    @contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        """A namespace in which pods may be created at once; its pods are gone afterwards."""
        self.kubectl("create", "namespace", name)
        self.wait_for(lambda: self.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"), f"{name} may have pods")
        try:
            yield name
        finally:
            # First the pods: the namespace controller takes its time.
            self.kubectl("delete", "pods", "--all", "--now", "--wait=false", f"--namespace={name}")
            pods = f"/api/v1/namespaces/{name}/pods"
            self.wait_for(lambda: not (self.get(pods) or {"items": []})["items"], f"no pod is left in {name}")
            self.kubectl("delete", "namespace", name, "--wait=false")

    def get(self, path: str) -> Any:
        """The JSON of the API server under a path, or None where there is nothing: for looking often."""
        return self.api.get(path)

    def pod(self, name: str, namespace: str = "default") -> Any:
        """A pod's JSON, or None."""
        return self.get(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def wait_pod(self, name: str, *phases: str, namespace: str = "default", seconds: float = PATIENCE) -> Any:
        """Wait until the pod is in one of the phases (Running, unless told otherwise), and return its JSON."""
        wanted = phases or ("Running",)

        def look() -> Any:
            pod = self.pod(name, namespace)
            return pod if pod and pod["status"].get("phase") in wanted else None

        return self.wait_for(look, f"pod {namespace}/{name} is {' or '.join(wanted)}", seconds=seconds)

    def wait_for(self, look: Callable[[], T | None], what: str, *, seconds: float = PATIENCE, every: float = 0.1) -> T:
        """Call `look` until it gives something true; the failure shows pods, events and logs."""
        return until(look, what, seconds=seconds, every=every, explain=self.describe)

    def describe(self) -> str:
        """What helps to understand a failure: nodes, pods, events, the ends of all logs."""
        return describe(self)

    def load(self, *archives: Path) -> None:
        """Take the images of docker-archives into all nodes."""
        for node in self.nodes:
            node.containerd.wait_ready()
            for archive in archives:
                node.load(archive.absolute())

    def forward(self, address: str, port: int) -> int:
        """A port on this machine's 127.0.0.1 that leads to address:port in the cluster's network, while it lives.

        The address may be a pod's, a service's, or `address` for programs run by `spawn`.
        """
        return relay.start(self.control, address, port)

    def environment(self) -> dict[str, str]:
        """Environment of programs in the cluster's network: KUBECONFIG, and the programs' folder on PATH."""
        return {**os.environ, "PATH": search_path(programs.folder()), "KUBECONFIG": str(self.kubeconfig_inside)}

    def run(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program in the cluster's network and wait; options are those of subprocess.run."""
        return self.control.run(*command, **{"env": self.environment(), **options})

    def spawn(self, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> Process:
        """Start a program in the cluster's network (a hub, say); it ends by `.end()`, or with the cluster."""
        with log.open("ab") as output:
            return self.control.spawn(command, log=output, env={**self.environment(), **(env or {})})

    def set_audit(self, on: bool) -> None:
        """Let the API server write down every request, or stop that; restarts it."""
        self.audit = on
        self.apiserver.restart()

    def audit_events(self, word: str = "") -> list[dict[str, Any]]:
        """The requests so far whose record has that word, oldest first (Kubernetes' audit.k8s.io/v1 Event).

        A request is written down after it is answered: who has just seen what came of it may have to wait.
        """
        if not self._plane.audit_log.exists():
            return []
        with self._plane.audit_log.open() as file:
            whole = itertools.takewhile(lambda line: line.endswith("\n"), file)  # the last may be half written
            return [json.loads(line) for line in whole if word in line]

    def keep_logs(self) -> Path:
        """Copy the logs to a folder that outlives the cluster, and return it."""
        kept = Path(tempfile.mkdtemp(prefix=f"{self.handle.name}-logs-"))
        (kept / "cluster.txt").write_text(self.describe())
        for source in (self.folder, *(node.folder for node in self.nodes)):
            shutil.copytree(source / "log", kept / source.name, dirs_exist_ok=True, symlinks=True)
        return kept


def handle(name: str) -> Path:
    """Where a cluster of that name is found: its folder, or a link to it."""
    return Path("/tmp") / f"hami-cluster-{name}"
