"""How a test leaves a hub that others share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import jupyterhub
from hub_process import Hub


@contextmanager
def left_empty(hub: Hub) -> Iterator[None]:
    """Afterwards the hub runs and nobody has a server; whatever was done meanwhile, it may leave nothing reserved."""
    yield
    if not hub.alive:
        hub.begin()
    hub.stop_all()
    hub.until_held()


@contextmanager
def left_without_traceback(hub: Hub) -> Iterator[None]:
    """What was done meanwhile, and what is done to clear up after it, may leave none in the log."""
    before = len(hub.log.read_bytes())
    yield
    if jupyterhub.version_info[0] >= 6:  # the older one's HTTP client logs what is cancelled
        assert b"Traceback" not in hub.log.read_bytes()[before:]
