"""A mount namespace in which a limiter stands as it does in a container: /etc/ld.so.preload names it, for everybody.

No variable reaches it there.  Nothing of the machine is changed: all of it goes with the namespace.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

# Where HAMi has it in its containers, and so do we.
LIMITER = "/usr/local/vgpu/libvgpu.so"
_SECONDS = 30

# A folder is made anew with its entries bound to the machine's own, so that new names fit in beside them.
_SETUP = """\
set -eu
dir=$1 library=$2 hami=$3 place=$4
mount -t tmpfs -o mode=755 tmpfs "$dir"
again() {
    mkdir -p "$dir$1"
    for entry in "$1"/* "$1"/.[!.]*; do
        if [ -L "$entry" ]; then cp -P "$entry" "$dir$entry"; continue; fi
        [ -e "$entry" ] || continue
        if [ -d "$entry" ]; then mkdir "$dir$entry"; else : > "$dir$entry"; fi
        mount --rbind "$entry" "$dir$entry"
    done
}
again /usr/local
mkdir -p "$dir${place%/*}"
cp "$library" "$dir$place"
again /run
mkdir -p "$dir/run/hami"
[ -z "$hami" ] || mount --bind "$hami" "$dir/run/hami"
again /etc
umount "$dir/etc/ld.so.preload" 2> /dev/null || true
echo "$place" > "$dir/etc/ld.so.preload"
for folder in /usr/local /run /etc; do mount --rbind "$dir$folder" "$folder"; done
echo ready
exec cat
"""


class MountedLimiter:
    """The namespace; it lives until `close`.

    Args:
        folder: an empty one, to put things together in.
        library: the limiter.
        hami: the folder whose subfolder "slice" is the slice, to stand at /run/hami; None: there is none.

    Raises:
        OSError: the mounts were refused.
    """

    def __init__(self, folder: Path, *, library: Path, hami: Path | None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", _SETUP, "sh", str(folder), str(library), str(hami or ""), LIMITER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            raise OSError(f"The limiter can't be mounted: {self._process.communicate(timeout=_SECONDS)[1].strip()}")

    def inside(self, command: Sequence[str | Path]) -> list[str]:
        """The command line that runs `command` in there, as the same process."""
        return ["nsenter", f"--target={self._process.pid}", "--mount", "--", *map(str, command)]

    def close(self) -> None:
        """Let go of it; processes still inside keep theirs."""
        self._process.communicate(timeout=_SECONDS)


def why_not(scratch: Path, *, library: Path) -> str | None:
    """Why this machine can't give such a namespace, in one sentence; None if it can.

    Args:
        scratch: a folder on tmpfs.
        library: any that can be preloaded.
    """
    if os.geteuid() != 0:
        return "only root may make mount namespaces"
    for tool in ("unshare", "nsenter", "mount"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    try:
        MountedLimiter(scratch / "probe", library=library, hami=None).close()
    except OSError as error:
        return str(error)
    return None
