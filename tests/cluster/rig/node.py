"""One node: a machine with files of its own where a node has them, a real containerd and a real kubelet.

Of its own are /run (a tmpfs), /var/lib/kubelet, /var/lib/containerd, /var/log, and all that is written under /etc,
/var, /opt and /usr/local: what a DaemonSet mounts by hostPath there is shared with no other node and no other machine.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from tests.cluster.rig import network, programs
from tests.cluster.rig.api import Api
from tests.cluster.rig.component import Component
from tests.cluster.rig.machine import Machine, search_path
from tests.cluster.rig.pki import Pki
from tests.cluster.rig.processes import Process
from tests.cluster.rig.waiting import until

PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
SOCKET = "/run/containerd/containerd.sock"

OVERLAID = ("/etc", "/var", "/opt", "/usr/local")

# Arguments: the node's folder on this machine.
SETUP = """\
dir=$1
over() {
    [ -d "$1" ] || return 0
    n=$((${n:-0} + 1))
    mkdir "$dir/overlay/upper$n" "$dir/overlay/work$n"
    mount -t overlay -o "lowerdir=$1,upperdir=$dir/overlay/upper$n,workdir=$dir/overlay/work$n" overlay "$1"
}
mount -t tmpfs -o mode=755 tmpfs "$dir/overlay"
for folder in @OVERLAID@; do over $folder; done
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs /run
[ -L /var/run ] || { mkdir -p /var/run; mount --bind /run /var/run; }
mkdir -p /run/hami /run/cdi /etc/cdi /var/lib/kubelet /var/lib/containerd /etc/cni/net.d
rm -rf /etc/cni/net.d/* /etc/cdi/* /etc/ld.so.preload
cp "$dir/cni.conflist" /etc/cni/net.d/pods.conflist
mount --bind "$dir/kubelet" /var/lib/kubelet
mount --bind "$dir/containerd" /var/lib/containerd
mount --bind "$dir/log" /var/log
mount --make-rshared /
""".replace("@OVERLAID@", " ".join(OVERLAID))


class Node:
    """A node of the cluster; `machine` is what it stands on, `kubelet` and `containerd` are what runs there."""

    def __init__(
        self,
        index: int,
        count: int,
        *,
        cgroup: str,
        control: Machine,
        folder: Path,
        pki: Pki,
        api: Callable[[], Api],
    ) -> None:
        self.index = index
        self.name = f"node{index}"
        self.address = network.node_address(index)
        self.cgroup = f"{cgroup}/{self.name}"
        self.folder = folder / self.name
        self.machine = Machine(self.name, folder, within=control)
        self._count = count
        self._pki = pki
        self._api = api
        self.containerd = self._component("containerd", self._containerd_command, self._containerd_answers)
        self.kubelet = self._component("kubelet", self._kubelet_command, self._kubelet_answers)

    @property
    def run_dir(self) -> Path:
        """The node's /run/hami, seen from the tests."""
        return self.path("/run/hami")

    def path(self, path: str | os.PathLike[str]) -> Path:
        """A file of the node (absolute path), seen from the tests; valid while the node is up."""
        return self.machine.path(path)

    def is_ready(self) -> bool:
        """Whether the API server holds the node for Ready."""
        node = self._api().get(f"/api/v1/nodes/{self.name}") or {"status": {}}
        conditions = node["status"].get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def exec(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program on the node: its files, network and processes, but in no container.

        Options are those of subprocess.run; text, captured output, check and a limit of 60 s by default.
        """
        settings = {"check": True, "env": {**os.environ, **_environment()}, **options}
        return self.machine.run(*command, **settings)

    def spawn(self, command: list[str], log: Path, env: dict[str, str] | None = None) -> Process:
        """Start a program on the node and return; it ends with the cluster, or by `.end()`."""
        with log.open("ab") as output:
            return self.machine.spawn(command, log=output, env={**os.environ, **_environment(), **(env or {})})

    def load(self, archive: Path) -> None:
        """Take the images of a docker-archive into this node's containerd."""
        command = ["ctr", "--address", SOCKET, "--namespace", "k8s.io", "images", "import", "--local", str(archive)]
        result = self.exec(command, check=False, timeout=300)
        if result.returncode:
            raise RuntimeError(f"{self.name} could not take the images of {archive}: {result.stderr.strip()}")

    def begin(self) -> None:
        """Make the machine and start containerd; the kubelet needs the API server and is started by the cluster."""
        for name in ("", "overlay", "kubelet", "containerd", "log"):
            (self.folder / name).mkdir()
        (self.folder / "cni.conflist").write_text(json.dumps(network.cni(self.index, self._count)))
        (self.folder / "containerd.toml").write_text(self._containerd_config())
        (self.folder / "kubelet.yaml").write_text(json.dumps(self._kubelet_config()))
        init = programs.folder() / "pause"
        self.machine.start(SETUP, str(self.folder), init=init)
        self.containerd.start(wait=False)

    def _component(self, name: str, command: Callable[[], list[str]], ready: Callable[[], bool]) -> Component:
        return Component(f"{name}-{self.name}", self.machine, command, env=_environment(), ready=ready)

    def _kubelet_answers(self) -> bool:
        """Whether the kubelet itself answers and knows its pods: the node goes on being Ready long after its end."""
        try:
            expected = self._api().get(f"/api/v1/pods?fieldSelector=spec.nodeName={self.name}")
            known = self._api().get(f"/api/v1/nodes/{self.name}/proxy/pods")
        except requests.RequestException:
            return False
        return bool(known) and _uids(expected) <= _uids(known)

    def _containerd_answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(str(self.path(SOCKET))) == 0

    def _containerd_command(self) -> list[str]:
        return ["containerd", "--config", str(self.folder / "containerd.toml")]

    def _kubelet_command(self) -> list[str]:
        # With no runtime to be found it would give up.
        until(self._containerd_answers, f"containerd of {self.name} answers")
        return [
            "kubelet",
            f"--config={self.folder / 'kubelet.yaml'}",
            f"--kubeconfig={self._pki.kubeconfig(f'system:node:{self.name}')}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.address}",
            "--root-dir=/var/lib/kubelet",
        ]

    def _containerd_config(self) -> str:
        # An overlay can't lie on an overlay, as it would where this machine is a container itself.
        kind = subprocess.run(["stat", "-f", "-c", "%T", str(self.folder)], capture_output=True, text=True, check=True)
        snapshotter = "native" if "overlay" in kind.stdout else "overlayfs"
        return f"""\
version = 3
disabled_plugins = ["io.containerd.nri.v1.nri"]
[plugins.'io.containerd.cri.v1.images']
snapshotter = "{snapshotter}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins.'io.containerd.cri.v1.runtime']
enable_cdi = true
cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
restrict_oom_score_adj = true  # else every container fails where root may not lower it
netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{programs.folder()}"]
conf_dir = "/etc/cni/net.d"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
"""

    def _kubelet_config(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.address,
            "healthzBindAddress": self.address,
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "enforceNodeAllocatable": [],
            "localStorageCapacityIsolation": False,
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
            "clusterDNS": [network.DNS],
            "clusterDomain": network.DOMAIN,
            "resolvConf": str(self.folder.parent / "resolv.conf"),
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            "maxPods": 250,
        }


def _uids(pods: dict[str, Any]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods["items"] or ()}


def _environment() -> dict[str, str]:
    return {"PATH": search_path(programs.folder())}
