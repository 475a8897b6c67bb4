"""UNIX accounts, and what they may do with a file: asked as the account, since to root everything is open."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

from ..core.language import say
from .errors import GpuSpawnError, Reason


def account(name: str) -> pwd.struct_passwd:
    """The account of that name.

    Raises:
        GpuSpawnError: there is none.
    """
    try:
        return pwd.getpwnam(name)
    except KeyError:
        raise GpuSpawnError(
            say("There is no account {name} on this machine. Ask an admin to make one.", name=name),
            reason=Reason.NO_ACCOUNT,
        ) from None


def can_write(folder: Path, who: pwd.struct_passwd | None) -> bool:
    """Whether `who` can make files in `folder`; None: the hub's own user."""
    if who is None or os.geteuid() != 0:
        return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    return _test(who, "-d", folder, "-a", "-w", folder, "-a", "-x", folder)


def can_read(path: Path, who: pwd.struct_passwd | None) -> bool:
    """Whether `who` can read the file `path`, every folder above it included; None: the hub's own user."""
    if who is None or os.geteuid() != 0:
        return os.access(path, os.R_OK)
    return _test(who, "-r", path)


def _test(who: pwd.struct_passwd, *condition: str | Path) -> bool:
    asked = subprocess.run(
        ["test", *condition],
        user=who.pw_uid,
        group=who.pw_gid,
        extra_groups=os.getgrouplist(who.pw_name, who.pw_gid),
        cwd="/",
        check=False,
    )
    return asked.returncode == 0
