"""A placement as JSON, for the state that JupyterHub keeps of a running server.

Written by one version and read by another, so reading is strict and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cards import CardUuid
from .slices import CardShare, CorePolicy, Placement, Priority
from .units import Mib, Percent


class StateError(ValueError):
    """A saved placement that can't be understood."""


def placement_to_json(placement: Placement) -> dict[str, Any]:
    """`placement` as plain data."""
    return {
        "node": placement.node,
        "priority": int(placement.priority),
        "policy": placement.policy.value,
        "oom_killer": placement.oom_killer,
        "shares": [
            {
                "uuid": share.uuid,
                "vram_mib": share.vram,
                "cores": share.cores,
                "exclusive": share.exclusive,
                "whole": share.whole,
            }
            for share in placement.shares
        ],
    }


def placement_from_json(data: Mapping[str, Any]) -> Placement:
    """The placement that `placement_to_json` wrote.

    Raises:
        StateError: a field is missing or of the wrong kind.
    """
    try:
        return Placement(
            shares=tuple(
                CardShare(
                    uuid=CardUuid(str(share["uuid"])),
                    vram=Mib(int(share["vram_mib"])),
                    cores=Percent(int(share["cores"])),
                    exclusive=bool(share["exclusive"]),
                    whole=bool(share["whole"]),
                )
                for share in data["shares"]
            ),
            priority=Priority(int(data["priority"])),
            policy=CorePolicy(data["policy"]),
            node=str(data.get("node", "")),
            oom_killer=bool(data.get("oom_killer", False)),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"The saved slice of a server can't be read: {error!r}.") from None
