"""GPU slices for JupyterHub: pick "4 GiB · 25 % of a T4" and every process of the notebook is held to it.

The rooms, from the ground up (imports point downwards only, held by import-linter):

- `core`: what a slice, a card, a placement, a quota is, and every decision.  Pure: no I/O, no clock.
- `slicepage`: the binary page shared with the limiter, `native/libvgpu`.
- `native`: where the compiled libraries lie.
- `cards`: which cards this machine has, asked of NVML.
- `journal`, `languages`: what became of each start; the languages that people are spoken to in.
- `metrics`: what the hub shows to Prometheus.
- `notebook`: what a person in a notebook calls.
- `spawner`: JupyterHub spawners that start servers on slices.
- `service`: the page about cards, quotas and use.
- `cli`: the command `hami-hub`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

__version__ = "0.1.0"


def setup(
    c: Any,
    *,
    url: str = "",
    viewers: Iterable[str] = (),
    viewer_groups: Iterable[str] = (),
) -> None:
    """Add the page about cards, quotas and use to a hub: its service, roles and templates.

    To be called at the end of `jupyterhub_config.py`, where all other settings are known::

        import hami_hub
        hami_hub.setup(c)

    Args:
        c: the configuration.
        url: where the hub's proxy finds the service, "http://hub:10101" where that is another pod; if not given, a
            free port of 127.0.0.1.
        viewers: users who see everything without being admins.
        viewer_groups: the same by group.

    Raises:
        TypeError: a setting that the service needs can't be handed to it.
    """
    # Only a hub's configuration needs it, and every part of this package would import it from here.
    importlib.import_module("hami_hub.service.setup").extend(c, url=url, viewers=viewers, viewer_groups=viewer_groups)
