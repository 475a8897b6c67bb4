"""What a container needs from Docker to be held to its slice: devices, and which settings would let it out.

Decides only.  `docker` asks the daemon; what is mounted is `mounted`'s to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..core.language import say

# With the one a tenant could unmount the limiter, with the other leave it outside of a root folder of their own.
_WAYS_OUT = ("SYS_ADMIN", "SYS_CHROOT")
_RUNTIME = "nvidia"

HostConfig = dict[str, Any]


def way_out(config: Mapping[str, Any]) -> str:
    """Why a container with this host configuration is not started, in words; "" if it can't leave its slice.

    Args:
        config: as `c.DockerSpawner.extra_host_config` is written.
    """
    if config.get("privileged"):
        return say(
            "Your server was not started: its container would be privileged, and could leave its slice. "
            "Ask an admin to put it right."
        )
    added = {str(each).upper().removeprefix("CAP_") for each in config.get("cap_add") or ()}
    if found := sorted(added & {*_WAYS_OUT, "ALL"}):
        return say(
            "Your server was not started: its container would have the capability {capability}, and could leave its "
            "slice. Ask an admin to put it right.",
            capability=found[0],
        )
    for option in config.get("security_opt") or ():
        if str(option).replace(":", "=").replace(" ", "") == "seccomp=unconfined":
            return say(
                "Your server was not started: its container would have no seccomp profile, and could leave its slice. "
                "Ask an admin to put it right."
            )
    return ""


def held(config: Mapping[str, Any]) -> HostConfig:
    """An admin's host configuration, with what keeps a container's slice in place."""
    dropped = [*(config.get("cap_drop") or ())]
    # The hub removes it by itself: how it ended has to be asked first.
    return {**config, "cap_drop": [*dropped, "SYS_CHROOT"], "auto_remove": False}


def with_runtime(config: Mapping[str, Any], uuids: Iterable[str]) -> HostConfig:
    """`config` with just these cards, or MIG devices, given by NVIDIA's container runtime."""
    others = [each for each in config.get("device_requests") or () if not _asks_for_cards(each)]
    cards = list(uuids)
    request = {"Driver": _RUNTIME, "DeviceIDs": cards, "Capabilities": [["gpu", "compute", "utility"]]}
    return {**config, "device_requests": [*others, *([request] if cards else [])]}


def with_files(config: Mapping[str, Any], minors: Iterable[int], dev: Path = Path("/dev")) -> HostConfig:
    """`config` with just these cards' device files; the driver's libraries are the image's affair.

    Args:
        config: of the admin.
        minors: of the cards; none: no device file at all.
        dev: where they lie.
    """
    files = [f"{path}:/dev/{path.relative_to(dev)}:rw" for path in device_files(minors, dev)]
    return {**config, "devices": [*(config.get("devices") or ()), *files]}


def device_files(minors: Iterable[int], dev: Path = Path("/dev")) -> tuple[Path, ...]:
    """The device files that a process needs for these cards, as far as they are there."""
    cards = [f"nvidia{minor}" for minor in minors]
    if not cards:
        return ()
    wanted = (*cards, "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools")
    return tuple(path for name in wanted if (path := dev / name).exists())


def has_runtime(info: Mapping[str, Any]) -> bool:
    """Whether a Docker daemon, by its own `info`, has NVIDIA's container runtime."""
    return _RUNTIME in (info.get("Runtimes") or {})


def _asks_for_cards(request: Mapping[str, Any]) -> bool:
    return any("gpu" in group for group in _capabilities(request))


def _capabilities(request: Mapping[str, Any]) -> Iterator[list[str]]:
    yield from request.get("Capabilities") or request.get("capabilities") or ()
