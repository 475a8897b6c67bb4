"""A real JupyterHub in the cluster's network, with a ServiceAccount of its own that may do what a hub's may.

Its servers are real pods of this machine's programs: a real JupyterLab in each.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import jupyterhub
import yaml

from tests.cluster.hami import Hami
from tests.cluster.rig import Cluster, images
from tests.hub_client import PATIENCE, Failed, HubClient, api_client

HERE = Path(__file__).parent
# In the cluster's network, which is the cluster's alone.
PORTS = {"url": 8100, "hub_url": 8101, "proxy_url": 8102}
PAGE_PORT = 8103
_PROXY = "from configurable_http_proxy.cli import main; main()"
ACCOUNT = "hub"
# As in zero-to-jupyterhub's chart.
ROLE = [
    {"apiGroups": [""], "resources": ["pods", "persistentvolumeclaims", "secrets", "services"],
     "verbs": ["get", "watch", "list", "create", "delete"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "watch", "list"]},
]  # fmt: skip


@contextlib.contextmanager
def hub_on(hami: Hami, folder: Path, **settings: Any) -> Iterator[HubSite]:
    """A hub in a namespace of its own, which the release knows; settings are those of HubSite."""
    name = f"jhub-{os.urandom(3).hex()}"
    with hami.cluster.namespace(name), hami.values(f"hub.namespaces[0]={name}"):
        hami.cluster.wait_for(lambda: _told_where(hami.cluster, name), "the scheduler says where it is")
        with HubSite(hami.cluster, name, folder, **settings) as site:
            yield site


def _told_where(cluster: Cluster, namespace: str) -> bool:
    found = cluster.get(f"/api/v1/namespaces/{namespace}/configmaps/hami-hub")
    return bool(found and (found.get("data") or {}).get("url"))


class HubSite(HubClient):
    """`with HubSite(cluster, "jhub", folder) as site: site.start("alice", {"profile": "small"})`.

    Args:
        page: whether the hub has the page about cards, quotas and use.
        config: more settings, by class name.
    """

    def __init__(
        self, cluster: Cluster, namespace: str, folder: Path, *, page: bool = False, **config: Mapping[str, Any]
    ) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self._page = {"url": f"http://{cluster.address}:{PAGE_PORT}"} if page else None
        self.log = folder / "hub.log"
        self._token = secrets.token_hex(16)
        self._config = config
        self._hub: Any = None
        self._proxy: Any = None
        self._account()

    # --- the hub itself

    def __enter__(self) -> HubSite:
        address = self.cluster.address
        places = [
            f"--ip={address}",
            f"--port={PORTS['url']}",
            f"--api-ip={address}",
            f"--api-port={PORTS['proxy_url']}",
        ]
        self._proxy = self.cluster.spawn(
            [sys.executable, "-c", _PROXY, *places],
            log=self.folder / "proxy.log",
            env={"CONFIGPROXY_AUTH_TOKEN": self._token},
        )
        port = self.cluster.forward(address, PORTS["hub_url"])
        self.api = api_client(f"http://127.0.0.1:{port}", self._token)
        self.url = f"http://127.0.0.1:{self.cluster.forward(address, PORTS['url'])}"
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(Exception):
            self.stop_all()
        for process in (self._hub, self._proxy):
            if process is not None:
                process.end()
        self.api.close()

    def begin(self) -> None:
        """Start the hub, and return when it answers."""
        self._hub = self.cluster.spawn(
            [sys.executable, "-m", "jupyterhub", "-f", str(HERE / "hub_config.py")],
            log=self.log,
            env={"HAMI_TEST_HUB": json.dumps(self._settings()), "KUBECONFIG": str(self._kubeconfig)},
        )
        self._until(self._answers, "the hub answers")

    def kill(self) -> None:
        """End the hub as the end of its container does: with its service, at once.  Its servers run on."""
        services = self._hub.children()
        for process in (self._hub, *services):
            process.signal(signal.SIGKILL)
        self._until(lambda: not any(each.alive for each in (self._hub, *services)), "the hub is gone")

    @property
    def alive(self) -> bool:
        return bool(self._hub.alive)

    # --- people and their servers

    def start(self, user: str, options: Any, server: str = "", language: str = "en") -> list[str]:
        """Start a server; what was told until it was ready.

        Raises:
            Failed: it was not started.
        """
        self.ask(user, options, server, language)
        return self.until_started(user, server)

    def ask(self, user: str, options: Any, server: str = "", language: str = "en") -> None:
        """Ask for a server, and return while it starts.

        Raises:
            Failed: it was refused at once.
        """
        self.api.post(f"/users/{user}")
        body = {"user_options": options} if jupyterhub.version_info[0] >= 6 else options
        answer = self.api.post(self.place(user, server), json=body, headers={"Accept-Language": language})
        if answer.status_code >= 400:
            raise Failed(answer.json()["message"])

    def until_told(self, user: str, part: str) -> str:
        """What the person is told that has `part` in it, once they are."""
        return next(event["message"] for event in self.progress(user) if part in event["message"])

    def stop(self, user: str, server: str = "") -> None:
        """Stop a server, or cancel its start, and return when its pod is gone."""
        self.api.delete(self.place(user, server))
        self.until_gone(user, server)

    def until_gone(self, user: str, server: str = "") -> None:
        """Return when a server's pod is gone and the hub knows it."""
        self._until(lambda: server not in self.servers(user), f"{user} has no server")
        self._until(lambda: self.pod(user, server) is None, f"{self.pod_name(user, server)} is gone")

    def slice_of(self, user: str, server: str = "") -> dict[str, Any]:
        """What the hub says of a running server's slice."""
        found: dict[str, Any] = self.servers(user)[server]["state"]["hami"]
        return found

    @staticmethod
    def pod_name(user: str, server: str = "") -> str:
        return f"jupyter-{user}--{server}" if server else f"jupyter-{user}"

    def pod(self, user: str, server: str = "") -> Any:
        """The pod of a server, or None."""
        return self.cluster.pod(self.pod_name(user, server), self.namespace)

    def exec(self, user: str, *command: str) -> tuple[str, str]:
        """Run a command in a server, by `kubectl exec`: what it prints, on stdout and stderr."""
        place = ("-n", self.namespace, self.pod_name(user), "-c", "notebook")
        done = self.cluster.kubectl_run("exec", *place, "--", *command)
        return done.stdout, done.stderr

    # --- small things

    def _account(self) -> None:
        """A ServiceAccount for the hub, and files with which it is one."""
        meta = {"name": ACCOUNT, "namespace": self.namespace}
        rbac = "rbac.authorization.k8s.io"
        self.cluster.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
            {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta, "rules": ROLE},
            {
                "apiVersion": f"{rbac}/v1",
                "kind": "RoleBinding",
                "metadata": meta,
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": ACCOUNT},
                "subjects": [{"kind": "ServiceAccount", **meta}],
            },
        )
        token = self.cluster.kubectl("create", "token", ACCOUNT, "-n", self.namespace, "--duration=8h").strip()
        self._token_file, self._kubeconfig = self.folder / "token", self.folder / "kubeconfig"
        self._token_file.write_text(token)
        config = yaml.safe_load(self.cluster.kubeconfig_inside.read_text())
        config["users"] = [{"name": each["name"], "user": {"token": token}} for each in config["users"]]
        self._kubeconfig.write_text(yaml.safe_dump(config))

    def _settings(self) -> dict[str, Any]:
        volumes, mounts = images.host_mounts()
        spawner: dict[str, Any] = {
            "namespace": self.namespace,
            "image": images.HOST_IMAGE,
            "image_pull_policy": "Never",
            "cmd": [sys.executable, "-m", "jupyterhub.singleuser"],
            "args": ["--allow-root", "--ServerApp.log_level=WARN"],
            "environment": {"HOME": "/home/jovyan", "SHELL": "/bin/sh"},
            "volumes": [*volumes, {"name": "pam", "configMap": {"name": "pam", "optional": True}}],
            "volume_mounts": [*mounts, {"name": "pam", "mountPath": "/etc/pam.d", "readOnly": True}],
            "uid": 0,
            "delete_grace_period": 0,
            # A JupyterLab's start on a machine that is busy with a cluster.
            "http_timeout": 120,
            "start_timeout": 120,
        }
        asking = {"token_file": str(self._token_file), "namespace": self.namespace, "timeout": 30}
        own = {"KubeSpawner": spawner, "GpuCluster": asking}
        config = {**own, **self._config, "KubeSpawner": {**spawner, **self._config.get("KubeSpawner", {})}}
        return {
            **{name: f"http://{self.cluster.address}:{port}" for name, port in PORTS.items()},
            "folder": str(self.folder),
            "token": self._token,
            "spawner": "hami_hub.spawner.kube.GpuKubeSpawner",
            "page": self._page,
            "config": config,
        }

    def _answers(self) -> bool:
        if not self._hub.alive:
            raise RuntimeError(f"The hub ended:\n{self.log.read_text()[-4000:]}")
        with contextlib.suppress(httpx.TransportError):
            # While no hub listens, the way into the cluster's network may take a request and keep it.
            return self.api.get("/", timeout=10).status_code == 200
        return False

    def _until(self, condition: Any, what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"Not so: {what}.\n{self.log.read_text()[-4000:]}\n{self.cluster.describe()}")
            time.sleep(0.05)
