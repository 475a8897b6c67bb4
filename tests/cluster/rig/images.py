"""Container images without a registry: archives made here, which `Cluster.load` takes into every node.

`host_pod` is the shortest way to run something: a real pod whose programs are this machine's, mounted read-only.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.rig import node, programs

HOST_IMAGE = "hami-hub-test/host:1"
REPOSITORY = Path(__file__).resolve().parents[3]
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_TOP = ("bin", "sbin", "lib", "lib32", "lib64")  # links into /usr on most systems
_USR = ("bin", "sbin", "lib", "lib32", "lib64", "libexec", "share")
_ACCOUNTS = "root:x:0:0::/root:/bin/sh\njovyan:x:1000:100::/home/jovyan:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"


@dataclass(frozen=True)
class File:
    """What one entry of a layer is: a file with `data`, a link with `target`, or else a folder."""

    data: bytes | None = None
    target: str | None = None
    mode: int = 0o755
    owner: int = 0


def docker_archive(
    path: Path, names: Sequence[str], layers: Iterable[Mapping[str, File]], config: Mapping[str, Any] | None = None
) -> Path:
    """Write an image as a docker-archive, and return its path.

    Args:
        path: the tar file to write.
        names: what it is called, `registry/repository:tag`; one image may have several names.
        layers: each maps paths without a leading slash to what is there.
        config: the image's defaults, in Docker's words: Entrypoint, Cmd, Env, User, WorkingDir.
    """
    machine = platform.machine()
    tars = [_layer(each) for each in layers]
    digests = [hashlib.sha256(each).hexdigest() for each in tars]
    image = {
        "architecture": ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": dict(config or {}),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
    }
    text = json.dumps(image).encode()
    name = f"{hashlib.sha256(text).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": list(names), "Layers": [f"{digest}.tar" for digest in digests]}]
    with tarfile.open(path, "w") as archive:
        for digest, data in zip(digests, tars, strict=True):
            _add(archive, f"{digest}.tar", File(data))
        _add(archive, name, File(text))
        _add(archive, "manifest.json", File(json.dumps(manifest).encode()))
    return path


def standard(folder: Path) -> list[Path]:
    """The archives that every cluster has: pause, the host image, and kube-scheduler under the names charts use."""
    folder.mkdir(exist_ok=True)
    pause = {"pause": File((programs.folder() / "pause").read_bytes())}
    archives = [
        docker_archive(folder / "pause.tar", [node.PAUSE_IMAGE], [pause], {"Entrypoint": ["/pause"]}),
        docker_archive(folder / "host.tar", [HOST_IMAGE], [_host_files()], {"Env": [f"PATH={_host_path()}"]}),
    ]
    return [*archives, _kube_scheduler()]


def _kube_scheduler() -> Path:
    """As the official image, but for the base; kept in the cache, since it is large."""
    path = programs.folder().parent / "kube-scheduler.tar"
    if not path.exists():
        names = [f"registry.k8s.io/kube-scheduler:{tag}" for tag in (programs.kubernetes_version(), "v1.36.1")]
        files = {"usr/local/bin/kube-scheduler": File((programs.folder() / "kube-scheduler").read_bytes())}
        part = path.with_suffix(".part")
        docker_archive(part, sorted(set(names)), [files], {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]})
        part.rename(path)
    return path


def host_mounts() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """`volumes` and `volumeMounts` that bring this machine's programs, Python and repository into a pod, read-only.

    Not /usr as a whole: in /usr/local and elsewhere there must be room for what CDI mounts.
    """
    roots = [Path("/") / name for name in _TOP if not Path("/", name).is_symlink()]
    roots += [Path("/usr") / name for name in _USR] + [Path("/usr/local") / name for name in _USR]
    roots += [Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), REPOSITORY]
    chosen: list[Path] = []
    for path in roots:
        if path.is_dir() and not any(path.is_relative_to(each) for each in chosen):
            chosen.append(path)
    volumes = [{"name": f"host-{n}", "hostPath": {"path": str(path)}} for n, path in enumerate(chosen)]
    mounts = [{"name": f"host-{n}", "mountPath": str(path), "readOnly": True} for n, path in enumerate(chosen)]
    return volumes, mounts


def host_pod(
    name: str,
    command: Sequence[str],
    *,
    namespace: str = "default",
    limits: Mapping[str, str | int] | None = None,
    metadata: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod with one container, `main`, that runs a program of this machine; `python` is this environment's.

    Args:
        limits: of the container, which are its requests as well.
        metadata: more of it: labels, annotations.
        container: more fields of the container, say `env`.
        spec: more fields of the pod's spec, say `nodeName="node1"`.
    """
    volumes, mounts = host_mounts()
    more = dict(container or {})
    main = {
        "name": "main",
        "image": HOST_IMAGE,
        "imagePullPolicy": "Never",
        "command": list(command),
        "resources": {"limits": dict(limits or {})},
        **more,
        "volumeMounts": [*mounts, *more.get("volumeMounts", [])],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, **(metadata or {})},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            **spec,
            "containers": [main],
            "volumes": [*volumes, *spec.get("volumes", [])],
        },
    }


def _host_path() -> str:
    return f"{sys.prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def _host_files() -> dict[str, File]:
    links = {name: File(target=f"usr/{name}") for name in _TOP if Path("/", name).is_symlink()}
    folders = {name: File() for name in ("etc", "home", "usr", "usr/local", "var")}
    return {
        **folders,
        **links,
        "root": File(mode=0o700),
        "home/jovyan": File(owner=1000),
        "tmp": File(mode=0o1777),
        "etc/passwd": File(_ACCOUNTS.encode(), mode=0o644),
        "etc/group": File(b"root:x:0:\nusers:x:100:\nnogroup:x:65534:\n", mode=0o644),
    }


def _layer(files: Mapping[str, File]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, file in files.items():
            _add(tar, name, file)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, file: File) -> None:
    entry = tarfile.TarInfo(name)
    entry.mode, entry.uid = file.mode, file.owner
    if file.target is not None:
        entry.type, entry.linkname = tarfile.SYMTYPE, file.target
    elif file.data is None:
        entry.type = tarfile.DIRTYPE
    else:
        entry.size = len(file.data)
    tar.addfile(entry, io.BytesIO(file.data or b""))
