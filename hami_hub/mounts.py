"""What kind of file system a path is on.  Slices need one in memory: the limiter's pages are shared by mapping them."""

from __future__ import annotations

import re
from pathlib import Path

IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def file_system(path: Path) -> str:
    """The type of the file system that `path` is on, or would be; "" if it can't be told."""
    resolved = path.resolve()
    best, kind = -1, ""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split()[4]))
        # Of two mounts on one place the later hides the earlier.
        if resolved.is_relative_to(mount) and len(mount.parts) >= best:
            best, kind = len(mount.parts), after.split()[0]
    return kind
