"""The programs of a cluster, built from their Go modules into a cache folder, once for each set of versions.

Versions are those of the `go.mod` files under `tests/cluster/tools`.  What the machine must have for it is asked by
`needs`.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

TOOLS = Path(__file__).parents[1] / "tools"


@dataclass(frozen=True)
class Program:
    """One program: the tools folder whose `go.mod` pins it, and the package to build."""

    name: str
    folder: str
    package: str
    tags: str = ""
    cgo: bool = False


def _of_kubernetes(*names: str) -> list[Program]:
    return [Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}") for name in names]


_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_CNI = "github.com/containernetworking/plugins/plugins"
_NO_SNAPSHOTTERS = "no_btrfs,no_devmapper,no_zfs"

PROGRAMS = (
    *_of_kubernetes("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl"),
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    *(
        Program(name, "containerd", f"{_CONTAINERD}/{name}", _NO_SNAPSHOTTERS)
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    ),
    Program("runc", "containerd", "github.com/opencontainers/runc", "seccomp", cgo=True),
    Program("bridge", "containerd", f"{_CNI}/main/bridge"),
    Program("loopback", "containerd", f"{_CNI}/main/loopback"),
    Program("host-local", "containerd", f"{_CNI}/ipam/host-local"),
    Program("coredns", "coredns", "."),
    Program("helm", "helm", "helm.sh/helm/v4/cmd/helm"),
)


class BuildError(RuntimeError):
    """A program could not be built; the text ends with what the compiler said."""


def cache() -> Path:
    """The folder that holds one subfolder for each set of versions."""
    return Path(os.environ.get("HAMI_CLUSTER_CACHE", "~/.cache/hami-hub/cluster")).expanduser()


def go() -> str | None:
    """Path of the Go command, also where it isn't on PATH but where its own installer puts it."""
    return shutil.which("go") or shutil.which("/usr/local/go/bin/go")


@functools.cache
def folder() -> Path:
    """Where the programs of these versions are, or will be."""
    digest = hashlib.sha256(repr(PROGRAMS).encode() + _go_version().encode())
    for path in sorted(path for path in TOOLS.rglob("*") if path.is_file()):
        digest.update(str(path.relative_to(TOOLS)).encode() + b"\0" + path.read_bytes())
    return cache() / digest.hexdigest()[:16] / "bin"


def kubernetes_version() -> str:
    """The Kubernetes version with its v, say `v1.36.3`."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", (TOOLS / "kubernetes" / "go.mod").read_text())
    assert found, "tests/cluster/tools/kubernetes/go.mod requires no k8s.io/kubernetes"
    return found[1]


def ensure(say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True)) -> Path:
    """The folder with all programs; builds them if need be, which takes some ten minutes and says so line by line."""
    target = folder()
    if target.is_dir():
        return target
    with _lock():
        if not target.is_dir():
            _build_all(target, say)
    return target


def _build_all(target: Path, say: Callable[[str], None]) -> None:
    say(f"Building the programs of a Kubernetes cluster, once, into {target} (about 10 minutes on 2 cores)")
    with tempfile.TemporaryDirectory(prefix="building-", dir=cache()) as name:
        out = Path(name) / "bin"
        out.mkdir()
        say(f"  1/{len(PROGRAMS) + 1} pause")
        _run(["cc", "-Os", "-static", "-o", str(out / "pause"), str(TOOLS / "pause" / "pause.c")], TOOLS, {})
        for number, program in enumerate(PROGRAMS, 2):
            say(f"  {number}/{len(PROGRAMS) + 1} {program.name}")
            _build(program, out)
        target.parent.mkdir(exist_ok=True)
        out.rename(target)


def _build(program: Program, out: Path) -> None:
    flags = f"-s -w {_version_stamp() if program.folder == 'kubernetes' else ''}"
    command = [str(go()), "build", "-trimpath", "-ldflags", flags, "-tags", program.tags, "-o", str(out / program.name)]
    _run([*command, program.package], TOOLS / program.folder, {"CGO_ENABLED": str(int(program.cgo))})


def _version_stamp() -> str:
    """Unstamped, Kubernetes says v0.0.0 and refuses what it compares with that."""
    version = kubernetes_version()
    major, minor = version.lstrip("v").split(".")[:2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())


def _run(command: list[str], cwd: Path, environment: dict[str, str]) -> None:
    settings = {**os.environ, "GOWORK": "off", "GOFLAGS": "-buildvcs=false -mod=readonly", **environment}
    result = subprocess.run(["nice", "-n", "10", *command], cwd=cwd, env=settings, capture_output=True, text=True)
    if result.returncode:
        raise BuildError(f"`{' '.join(command)}` failed in {cwd}:\n{result.stderr[-3000:]}")


@functools.cache
def why_no_go() -> str | None:
    """Why the Go that is there won't do, or None if it does."""
    result = _ask_go()
    return None if result.returncode == 0 else f"This machine's Go can't build a test cluster: {result.stderr.strip()}"


def _go_version() -> str:
    return _ask_go().stdout


@functools.cache
def _ask_go() -> subprocess.CompletedProcess[str]:
    # In a module's folder, so that an old Go finds the newer one that the module asks for, or says that it may not.
    asked = [str(go()), "version"]
    return subprocess.run(asked, cwd=TOOLS / "kubernetes", capture_output=True, text=True)


@contextmanager
def _lock() -> Iterator[None]:
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
