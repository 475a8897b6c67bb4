"""Whether a cluster can be had on this machine; if not, one sentence says what to do."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

from tests.cluster.rig import programs
from tests.cluster.rig.machine import search_path

# program -> Debian package
TOOLS = {
    "ip": "iproute2",
    "mount": "mount",
    "nft": "nftables",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "unshare": "util-linux",
}
TRIAL = """\
set -e
mount -t tmpfs tmpfs /mnt
mkdir /mnt/upper /mnt/work
mount -t overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work overlay /etc
ip link add hami0 type bridge
nft add table ip hami
"""
BUILD_TOOLS = {"cc": "gcc", "pkg-config": "pkg-config"}


@functools.cache
def why_not() -> str | None:
    """Why no cluster can be started here, with what to do about it, or None if one can."""
    if not sys.platform.startswith("linux"):
        return f"The test cluster needs Linux, and this is {sys.platform}."
    if os.geteuid() != 0:
        return f"Only root may start a test cluster, and this is uid {os.geteuid()}: run as root."
    missing = [f"{program} (package {package})" for program, package in TOOLS.items() if not _has(program)]
    if missing:
        return f"The test cluster needs {', '.join(missing)}: install it."
    return _why_no_programs() or _why_no_namespaces()


def _why_no_programs() -> str | None:
    if programs.go() is None:
        return "The test cluster's programs are built from their sources and there is no Go: install Go 1.26 or newer."
    if (reason := programs.why_no_go()) is not None:
        return reason
    if programs.folder().is_dir():
        return None
    missing = [f"{program} (package {package})" for program, package in BUILD_TOOLS.items() if not _has(program)]
    if not missing and subprocess.run(["pkg-config", "--exists", "libseccomp"]).returncode:
        missing = ["libseccomp (package libseccomp-dev)"]
    return f"To build the test cluster's programs there must be {', '.join(missing)}: install it." if missing else None


def _why_no_namespaces() -> str | None:
    """A container often forbids one of them; tried with everything that a node needs."""
    kinds = ["--pid", "--mount-proc", "--mount", "--net", "--uts"]
    command = ["unshare", "--fork", *kinds, "sh", "-c", TRIAL]
    environment = {**os.environ, "PATH": search_path()}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)
    if result.returncode == 0:
        return None
    reason = result.stderr.strip() or "no reason given"
    return f"This machine forbids what the test cluster's nodes are made of ({reason})."


def _has(program: str) -> bool:
    return shutil.which(program, path=search_path()) is not None
