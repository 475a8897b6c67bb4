"""The ways in which servers are started, and marks for tests that not every one of them concerns."""

from __future__ import annotations

import pytest

SHAPES = {
    "simple": "hami_hub.spawner.local.GpuSimpleLocalProcessSpawner",
    "local": "hami_hub.spawner.local.GpuLocalProcessSpawner",
    "systemd": "hami_hub.spawner.systemd.GpuSystemdSpawner",
}

# For what the shape can't make a difference to.
IN_ONE_SHAPE = pytest.mark.parametrize("shape", ["simple"], indirect=True, scope="session")
WITH_ACCOUNTS = pytest.mark.parametrize("shape", ["local", "systemd"], indirect=True, scope="session")
IN_UNITS = pytest.mark.parametrize("shape", ["systemd"], indirect=True, scope="session")
