"""A bare control plane on loopback: etcd without fsync and a kube-apiserver that lets everybody do anything.

No kubelet and no controllers: nodes are objects, and pods that are bound stay as they are.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from cluster.scheduler.certificates import make

USERS = ("bench", "ours", "kube-scheduler", "hami", "plugin")
_STARTED_WITHIN = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """A program that writes to a log of its own."""

    def __init__(self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("ab") as out:
            self._child = subprocess.Popen(
                list(command), stdout=out, stderr=out, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})}
            )

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._child.poll() is None

    def memory(self) -> tuple[float, float]:
        """Resident memory now and at most, MiB."""
        rows = dict(line.split(":", 1) for line in Path(f"/proc/{self._child.pid}/status").read_text().splitlines())
        return int(rows["VmRSS"].split()[0]) / 1024, int(rows["VmHWM"].split()[0]) / 1024

    def seconds(self) -> float:
        """Processor time used so far."""
        fields = Path(f"/proc/{self._child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def end(self) -> None:
        """SIGTERM, then SIGKILL."""
        self._child.terminate()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])


class Plane:
    """A running control plane.

    Attributes:
        url: of the API server.
        folder: for logs and keys.
    """

    def __init__(self, programs: Path, folder: Path, *, audit: bool) -> None:
        self._programs, self.folder = programs, folder
        folder.mkdir(parents=True)
        self._api_port, client, peer = free_ports(3)
        self.url = f"https://localhost:{self._api_port}"
        self._write_keys()
        self.etcd = Process(self._etcd(client, peer), folder / "etcd.log")
        self.apiserver = Process(self._apiserver(client, audit=audit), folder / "apiserver.log")

    def kubeconfig(self, user: str) -> Path:
        """For `user`, who is one of USERS."""
        return self.folder / f"{user}.kubeconfig"

    def program(self, name: str) -> str:
        """Path of a Kubernetes program."""
        return str(self._programs / name)

    @property
    def audit_log(self) -> Path:
        """Where the API server writes down requests, if it does."""
        return self.folder / "audit.jsonl"

    def wait(self) -> None:
        """Return when the API server is ready and pods may be created."""
        session = requests.Session()
        session.trust_env, session.verify = False, str(self.folder / "ca.crt")
        session.headers["Authorization"] = "Bearer token-bench"
        end = time.monotonic() + _STARTED_WITHIN
        while time.monotonic() < end:
            with contextlib.suppress(requests.RequestException):
                if session.get(f"{self.url}/api/v1/namespaces/default", timeout=2).ok:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"The API server didn't start:\n{self.apiserver.tail()}")

    def end(self) -> None:
        """End both."""
        self.apiserver.end()
        self.etcd.end()

    def _etcd(self, client: int, peer: int) -> list[str]:
        here, there = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
        return [
            self.program("etcd"), f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync",
            "--quota-backend-bytes=8000000000",
            f"--listen-client-urls={here}", f"--advertise-client-urls={here}", f"--listen-peer-urls={there}",
            f"--initial-advertise-peer-urls={there}", f"--initial-cluster=default={there}",
        ]  # fmt: skip

    def _apiserver(self, etcd: int, *, audit: bool) -> list[str]:
        policy = self.folder / "audit-policy.yaml"
        policy.write_text(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"
        )
        audited = [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}", "--audit-log-maxsize=1000"]
        return [
            self.program("kube-apiserver"), f"--etcd-servers=http://127.0.0.1:{etcd}", "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1", f"--secure-port={self._api_port}",
            f"--tls-cert-file={self.folder}/tls.crt", f"--tls-private-key-file={self.folder}/tls.key",
            f"--token-auth-file={self.folder}/tokens.csv", "--authorization-mode=AlwaysAllow",
            "--disable-admission-plugins=ServiceAccount", "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder}/accounts.pub",
            f"--service-account-signing-key-file={self.folder}/accounts.key", "--endpoint-reconciler-type=none",
            f"--cert-dir={self.folder}", *(audited if audit else []),
        ]  # fmt: skip

    def _write_keys(self) -> None:
        made = make(["localhost", "kubernetes.default.svc"], datetime.now(timezone.utc))
        for name, content in (("ca.crt", made.ca), ("tls.crt", made.certificate), ("tls.key", made.key)):
            (self.folder / name).write_bytes(content)
        accounts = ec.generate_private_key(ec.SECP256R1())
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        private = accounts.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        public = accounts.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
        (self.folder / "accounts.key").write_bytes(private)
        (self.folder / "accounts.pub").write_bytes(public)
        (self.folder / "tokens.csv").write_text("".join(f'token-{user},{user},{user},"bench"\n' for user in USERS))
        ca = self.folder / "ca.crt"
        for user in USERS:
            self.kubeconfig(user).write_text(
                "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                f'clusters: [{{name: b, cluster: {{server: "{self.url}", certificate-authority: {ca}}}}}]\n'
                f"users: [{{name: u, user: {{token: token-{user}}}}}]\n"
                "contexts: [{name: c, context: {cluster: b, user: u}}]\n"
            )


@contextmanager
def running(programs: Path, folder: Path, *, audit: bool = False) -> Iterator[Plane]:
    """A fresh control plane, ended afterwards."""
    plane = Plane(programs, folder, audit=audit)
    try:
        plane.wait()
        yield plane
    finally:
        plane.end()


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports
