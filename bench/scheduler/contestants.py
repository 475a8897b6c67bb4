"""Who is measured: ours, kube-scheduler alone, and HAMi's scheduler if its program and its chart are named.

HAMi runs as its chart starts it (`default`), or with its client's limit raised and quiet logs (`raised`).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
import yaml

from cluster.scheduler.kube_scheduler import kube_scheduler_configuration
from cluster.settings import Settings

from .plane import Plane, Process, free_ports

_READY_WITHIN = 120.0
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Hami:
    """Where HAMi's scheduler program and its repository (for the chart) are."""

    program: Path
    source: Path


@dataclass(slots=True)
class Running:
    """A contestant at work.

    Attributes:
        scheduler_name: for pods.
        plain: its pods ask for the plain resource.
        extender: URL before /filter; "" if it has none.
        processes: by name; `extender` is the one whose memory is told.
    """

    scheduler_name: str
    plain: bool = False
    extender: str = ""
    processes: dict[str, Process] = field(default_factory=dict)


Contestant = Callable[[Plane, bool], "contextlib.AbstractContextManager[Running]"]


@contextmanager
def ours(plane: Plane, scheduling: bool = True) -> Iterator[Running]:
    """Our daemon, and kube-scheduler with the configuration that it makes, unless only filter calls are wanted."""
    extender, https, metrics = free_ports(3)
    command = [
        sys.executable, "-m", "cluster.scheduler", f"--kubeconfig={plane.kubeconfig('ours')}",
        "--namespace=kube-system", "--drain-seconds=0",
        f"--extender-listen=127.0.0.1:{extender}", f"--https-listen=127.0.0.1:{https}",
        f"--metrics-listen=127.0.0.1:{metrics}",
    ]  # fmt: skip
    with ExitStack() as stack:
        daemon = _process(stack, command, plane.folder / "ours.log", {"PYTHONPATH": str(ROOT)})
        running = Running("hami-scheduler", extender=f"http://127.0.0.1:{extender}", processes={"extender": daemon})
        _wait(plane, daemon, f"http://127.0.0.1:{metrics}/readyz")
        if scheduling:
            made = kube_scheduler_configuration(
                Settings(),
                namespace="kube-system",
                extender=running.extender,
                kubeconfig=plane.kubeconfig("kube-scheduler"),
            )
            running.processes["kube-scheduler"] = _kube_scheduler(stack, plane, made)
        yield running


@contextmanager
def plain(plane: Plane, scheduling: bool = True) -> Iterator[Running]:
    """kube-scheduler alone, with the same client limits and back-off, for pods that ask for a plain resource."""
    made = kube_scheduler_configuration(
        Settings(), namespace="kube-system", kubeconfig=plane.kubeconfig("kube-scheduler")
    )
    del made["extenders"]
    with ExitStack() as stack:
        yield Running("hami-scheduler", plain=True, processes={"kube-scheduler": _kube_scheduler(stack, plane, made)})


def hami(where: Hami, *, raised: bool, plugin_delay: float = 0.0) -> Contestant:
    """HAMi's scheduler, with a stand-in for its device plugin that answers after `plugin_delay` seconds."""

    @contextmanager
    def run(plane: Plane, scheduling: bool = True) -> Iterator[Running]:
        extender, metrics = free_ports(2)
        devices = plane.folder / "hami-devices.yaml"
        devices.write_text(_rendered(plane, where.source, "device-configmap.yaml")["device-config.yaml"])
        limits = ["-v=0", "--kube-qps=1000", "--kube-burst=1000"] if raised else ["--debug", "-v=4"]
        command = [
            str(where.program), f"--http_bind=127.0.0.1:{extender}", f"--cert_file={plane.folder}/tls.crt",
            f"--key_file={plane.folder}/tls.key", "--scheduler-name=hami-scheduler",
            f"--metrics-bind-address=127.0.0.1:{metrics}", "--node-scheduler-policy=binpack",
            "--gpu-scheduler-policy=spread", "--force-overwrite-default-scheduler=true",
            f"--device-config-file={devices}", f"--leader-elect={'true' if scheduling else 'false'}",
            "--leader-elect-resource-name=hami-scheduler", "--leader-elect-resource-namespace=kube-system", *limits,
        ]  # fmt: skip
        env = {
            "KUBECONFIG": str(plane.kubeconfig("hami")), "POD_NAME": "hami-scheduler-0",
            "POD_NAMESPACE": "kube-system", "HAMI_NODELOCK_EXPIRE": "5m",
        }  # fmt: skip
        with ExitStack() as stack:
            running = Running("hami-scheduler", extender=f"https://localhost:{extender}")
            if scheduling:
                made = yaml.safe_load(_rendered(plane, where.source, "configmap.yaml")["config.yaml"])
                made["clientConnection"] = {"kubeconfig": str(plane.kubeconfig("kube-scheduler"))}
                made["extenders"][0]["urlPrefix"] = running.extender
                running.processes["kube-scheduler"] = _kube_scheduler(stack, plane, made, quiet=raised)
            daemon = _process(stack, command, plane.folder / "hami.log", env)
            running.processes["extender"] = daemon
            _wait(plane, daemon, f"{running.extender}/healthz")
            if scheduling:
                plugin = [sys.executable, "-m", "bench.scheduler.fake_plugin", str(plane.kubeconfig("plugin"))]
                log = plane.folder / "plugin.log"
                _process(stack, [*plugin, str(plugin_delay)], log, {"PYTHONPATH": str(ROOT)})
                time.sleep(18)  # it registers nodes by a tick of 15 s after its start
            yield running

    return run


def _kube_scheduler(stack: ExitStack, plane: Plane, made: dict[str, Any], *, quiet: bool = True) -> Process:
    (port,) = free_ports(1)
    path = plane.folder / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(made))
    me = plane.kubeconfig("kube-scheduler")
    command = [
        plane.program("kube-scheduler"), f"--config={path}", "--bind-address=127.0.0.1", f"--secure-port={port}",
        f"--cert-dir={plane.folder}", f"--authentication-kubeconfig={me}", f"--authorization-kubeconfig={me}",
        f"-v={0 if quiet else 4}",
    ]  # fmt: skip
    process = _process(stack, command, plane.folder / "kube-scheduler.log", {})
    lease = f"{plane.url}/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/hami-scheduler"

    def leads(answer: requests.Response) -> bool:
        return answer.ok and bool(answer.json()["spec"].get("holderIdentity"))

    _wait(plane, process, lease, leads)
    return process


def _process(stack: ExitStack, command: list[str], log: Path, env: dict[str, str]) -> Process:
    process = Process(command, log, env)
    stack.callback(process.end)
    return process


def _wait(
    plane: Plane, process: Process, url: str, good: Callable[[requests.Response], bool] = lambda answer: answer.ok
) -> None:
    session = requests.Session()
    session.trust_env, session.verify = False, str(plane.folder / "ca.crt")
    session.headers["Authorization"] = "Bearer token-bench"
    end = time.monotonic() + _READY_WITHIN
    while time.monotonic() < end and process.alive:
        with contextlib.suppress(requests.RequestException):
            if good(session.get(url, timeout=5)):
                return
        time.sleep(0.05)
    raise RuntimeError(f"{url} never answered:\n{process.tail()}")


def _rendered(plane: Plane, source: Path, template: str) -> dict[str, str]:
    """The data of a ConfigMap of HAMi's own chart, with its default values."""
    command = [
        plane.program("helm"), "template", "hami", str(source / "charts" / "hami"), "--namespace=kube-system",
        "--kube-version=1.36.3", "--show-only", f"templates/scheduler/{template}",
    ]  # fmt: skip
    homes = {f"HELM_{kind}_HOME": str(plane.folder / "helm") for kind in ("CACHE", "CONFIG", "DATA")}
    made = subprocess.run(command, env={**os.environ, **homes}, capture_output=True, text=True, check=True)
    data: dict[str, str] = yaml.safe_load(made.stdout)["data"]
    return data
