"""The ways in which servers are started, and marks for tests that not every one of them concerns."""

from __future__ import annotations

import pytest

SHAPES = {
    "simple": "hami_hub.spawner.local.GpuSimpleLocalProcessSpawner",
    "local": "hami_hub.spawner.local.GpuLocalProcessSpawner",
    "docker": "hami_hub.spawner.docker.GpuDockerSpawner",
    "systemd": "hami_hub.spawner.systemd.GpuSystemdSpawner",
}

MARKS = {"docker": pytest.mark.docker, "local": pytest.mark.systemd, "systemd": pytest.mark.systemd}


def in_shapes(*names: str) -> pytest.MarkDecorator:
    """For tests that concern these shapes only."""
    params = [pytest.param(name, marks=MARKS.get(name, ())) for name in names]
    return pytest.mark.parametrize("shape", params, indirect=True, scope="session")


# For what the shape can't make a difference to.
IN_ONE_SHAPE = in_shapes("simple")
WITH_ACCOUNTS = in_shapes("local", "systemd")
MOUNTED = in_shapes("docker", "systemd")
