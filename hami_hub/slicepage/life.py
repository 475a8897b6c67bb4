"""Whether the owner of a slot of the usage page lives, seen from here.

The same rule as libvgpu's `life.c`: in the same view of /proc its PID decides, in another one the kernel's lock that
the owner holds on a byte of the file.  What a PID says is `process`'s.
"""

from __future__ import annotations

import fcntl
import functools
import os
import struct

from . import layout
from .process import owner_runs

# Linux's own; a struct flock of it.
_F_OFD_GETLK = 36
_FLOCK = "hhqqi4x"


@functools.lru_cache(maxsize=1)
def proc_view() -> int:
    """Which /proc this process sees; 0 without one."""
    try:
        space, device = os.stat("/proc/self/ns/pid").st_ino, os.stat("/proc").st_dev
    except OSError:
        return 0
    return ((space * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF) ^ device or 1


def owner_lives(slot: layout.Process, index: int, file: int, *, same_pid_namespace: bool = True) -> bool:
    """Whether the slot's owner lives.

    Args:
        slot: a copy of it.
        index: its number in the page.
        file: a descriptor of the page.
        same_pid_namespace: False where a PID of a slot that doesn't say in which /proc it counts means nothing.
    """
    if slot.view and slot.view == proc_view():
        return owner_runs(slot.owner)
    locked = _is_locked(file, layout.Usage.processes.offset + index * _SLOT_SIZE + layout.Process.owner.offset)
    if locked is False and slot.view:
        return False
    return locked is True or slot.view != 0 or not same_pid_namespace or owner_runs(slot.owner)


def counts_here(slot: layout.Process) -> bool:
    """Whether the slot's PID names a process of this /proc."""
    return slot.view in (0, proc_view())


_SLOT_SIZE = layout.Usage.processes.size // layout.MAX_PROCESSES


def _is_locked(file: int, offset: int) -> bool | None:
    """Whether somebody holds the lock on a byte; None where there are no such locks."""
    try:
        answer = fcntl.fcntl(file, _F_OFD_GETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, offset, 1, 0))
    except OSError:
        return None
    return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
