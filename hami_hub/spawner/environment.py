"""The environment of a server on a slice.

What is set here informs, and in the local shape carries the limiter; what a slice may use stands in its pages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from ..core.codec import environment
from ..core.names import ENV_NVIDIA_VISIBLE_DEVICES, ENV_SLICE_DIR, ENV_VISIBLE_DEVICES
from ..core.slices import Placement
from ..native import ENV_SEARCH, ENV_SIM_CARDS, ENV_SIM_DIR, ENV_SIM_PROFILE, is_simulated, put_first, sim_folder

_PRELOAD = "LD_PRELOAD"


def slice_environment(
    env: Mapping[str, str], placement: Placement, *, directory: Path, preload: Path | None
) -> dict[str, str]:
    """`env` with what a server on this slice needs.

    Args:
        env: the server's own; what it preloads and where it searches libraries is kept.
        placement: no share: no card is visible.
        directory: the slice directory as the server sees it.
        preload: the limiter, or None if it is preloaded otherwise.
    """
    cards = ",".join(share.uuid for share in placement.shares)
    result = {
        **env,
        **environment(placement),
        ENV_SLICE_DIR: str(directory),
        ENV_VISIBLE_DEVICES: cards,
        ENV_NVIDIA_VISIBLE_DEVICES: cards or "none",
    }
    if preload is not None:
        result[_PRELOAD] = put_first(str(preload), re.split("[ :]", env.get(_PRELOAD, "")))
    if is_simulated():
        result[ENV_SEARCH] = put_first(str(sim_folder()), env.get(ENV_SEARCH, "").split(":"))
        result |= {key: os.environ[key] for key in (ENV_SIM_DIR, ENV_SIM_PROFILE, ENV_SIM_CARDS) if key in os.environ}
    return result
