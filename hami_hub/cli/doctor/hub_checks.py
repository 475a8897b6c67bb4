"""The checks of a hub's configuration, and of the folder in which it keeps slices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...core.profiles import ProfileError, default_profiles, parse_profiles
from ...mounts import file_system
from ...spawner.gpu_slices import GpuSlicesMixin
from ...spawner.slice_root import default_slice_root
from .findings import Finding, good, left_out, wrong
from .hub_config import ConfigError, HubConfig, read_hub_config, spawner_class
from .machine import Machine

_SPAWNERS = 'Set c.JupyterHub.spawner_class = "hami-systemd", "hami-local" or, to try out, "hami-simple".'
_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")


def load(path: Path | None) -> tuple[HubConfig | None, list[Finding]]:
    """The configuration, and what is to be said of it."""
    if path is None:
        return None, [left_out("hub config", "None is named (--config jupyterhub_config.py).")]
    try:
        config = read_hub_config(path)
    except ConfigError as error:
        return None, [wrong("hub config", str(error), "Correct it, or name another with --config.")]
    return config, [good("hub config", f"{path} can be read"), *_check_spawner(config), *_check_profiles(config)]


def check_slice_root(machine: Machine, config: HubConfig | None) -> Iterator[Finding]:
    """Whether slices can be kept where the hub keeps them."""
    root = (config.slice_root if config else None) or default_slice_root()
    kind = file_system(root)
    if kind not in _MEMORY_FILE_SYSTEMS:
        yield wrong(
            "slices",
            f"{root} is on {kind or 'an unknown file system'}, slices need a tmpfs.",
            "Set c.GpuSlices.slice_root to a folder under /dev/shm or /run.",
        )
    elif not machine.writable(root):
        yield wrong(
            "slices",
            f"{root} can't be written by this user.",
            "Run the hub as its owner, or set c.GpuSlices.slice_root.",
        )
    else:
        yield good("slices", f"are kept in {root}")


def _check_spawner(config: HubConfig) -> Iterator[Finding]:
    if not config.spawner:
        yield wrong("spawner", "No spawner is set, so servers get no slices.", _SPAWNERS)
        return
    found = spawner_class(config.spawner)
    name = config.spawner if isinstance(config.spawner, str) else config.spawner.__name__
    if found is None:
        yield wrong("spawner", f"There is no spawner {name}.", _SPAWNERS)
    elif not issubclass(found, GpuSlicesMixin):
        yield wrong("spawner", f"{name} gives servers no slices.", _SPAWNERS)
    else:
        yield good("spawner", f"{name} gives servers slices")


def _check_profiles(config: HubConfig) -> Iterator[Finding]:
    try:
        profiles = default_profiles() if config.profiles is None else parse_profiles(config.profiles)
    except (ProfileError, TypeError) as error:
        yield wrong("profiles", str(error), "Correct c.GpuSlices.profiles.")
        return
    names = ", ".join(profile.name for profile in profiles)
    yield good("profiles", f"{'the default ones: ' if config.profiles is None else ''}{names}")
