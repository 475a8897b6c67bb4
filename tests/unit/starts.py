"""A start as the journal has it."""

from __future__ import annotations

from typing import Any

from hami_hub.core.history import Start, StartState
from hami_hub.core.units import Mib


def a_start(id_: str = "1", **fields: Any) -> Start:
    """One of alice's, paid by the group lab, second in line; other than that as `fields` say."""
    usual: dict[str, Any] = {
        "user": "alice",
        "server": "",
        "group": "lab",
        "profile": "small",
        "cards": 1,
        "vram": Mib(4096),
        "cores": 25,
        "asked_at": 1000.0,
        "state": StartState.WAITING,
        "position": 2,
        "pod": "jhub/jupyter-alice",
    }
    return Start(id=id_, **{**usual, **fields})
