"""Ports on 127.0.0.1: is this one free, which one is."""

from __future__ import annotations

import errno
import socket

HOST = "127.0.0.1"
_TRIES = 100


def why_not(port: int) -> str | None:
    """Why `port` can't be listened on, in a few words; None if it can."""
    with socket.socket() as probe:
        # as servers do: a connection that ended a moment ago is no obstacle
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen(1)
        except PermissionError:
            return "is not allowed to this user"
        except OSError as error:
            return "is in use" if error.errno == errno.EADDRINUSE else f"can't be used ({error.strerror})"
    return None


def next_free(port: int) -> int | None:
    """The first free port above `port`; None if the next hundred are taken."""
    candidates = range(max(port, 1023) + 1, min(port + _TRIES, 65535) + 1)
    return next((candidate for candidate in candidates if why_not(candidate) is None), None)


def any_free(count: int) -> list[int]:
    """`count` different ports that are free now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
