"""Part of the configuration of a hub in tests: its form waits for what comes of a start.

JupyterHub shows a refusal on the form if it comes within a second, and on another page if it comes later.  On a busy
machine a test can't know which.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from jupyterhub.handlers import pages


def forms_wait(seconds: Callable[[], float]) -> None:
    """From now on the hub's forms wait so long, if that is longer than they would anyway; asked at each start."""
    pages.asyncio = _Patient(seconds)


class _Patient:
    """`asyncio`, as the hub's pages use it."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def wait(self, tasks: Any, timeout: float) -> Any:
        return await asyncio.wait(tasks, timeout=max(timeout, self._seconds()))
