"""A base image without a container registry: Debian with Python, from Debian's own packages by debootstrap.

`images/build.py --debian` uses it, and so do the tests.  Made once and kept in a cache folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SUITE = "bookworm"  # the oldest that is new enough: simulated cards then load in as many containers as can be
PACKAGES = ("ca-certificates", "python3", "python3-venv")
_LEFT_OUT = ("var/cache/apt/*", "var/lib/apt/lists/*", "usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*")


class BaseError(RuntimeError):
    """The base can't be made.  Says why and what to do."""


def cache_folder() -> Path:
    """Where bases, layers and archives are kept between builds."""
    return Path(os.environ.get("HAMI_IMAGE_CACHE", Path.home() / ".cache" / "hami-hub" / "images"))


def rootfs(suite: str = SUITE, folder: Path | None = None) -> Path:
    """A tar of Debian `suite` with Python, made if it isn't there yet.

    Raises:
        BaseError: not root, no debootstrap, or debootstrap failed.
    """
    recipe = hashlib.sha256(repr((suite, PACKAGES, _LEFT_OUT)).encode()).hexdigest()[:12]
    path = (folder or cache_folder()) / f"debian-{suite}-{recipe}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _make(suite, path)
    return path


def _make(suite: str, path: Path) -> None:
    if os.geteuid() != 0 or not shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin"):
        raise BaseError(
            "A Debian base is made by debootstrap, as root. "
            "Install the package debootstrap, or name a base image: --base python:3.13-slim-bookworm."
        )
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        root, part = Path(folder) / "root", Path(folder) / "base.tar"
        command = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(root)]
        made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode:
            raise BaseError(f"debootstrap {suite} failed: {made.stdout.strip().splitlines()[-1]}")
        excludes = [f"--exclude=./{each}" for each in (*_LEFT_OUT, "var/log/*", "dev/*")]
        subprocess.run(["tar", "--numeric-owner", *excludes, "-C", str(root), "-cf", str(part), "."], check=True)
        part.rename(path)
