"""A plugin for The Littlest JupyterHub: its installer's `--plugin hami-hub` puts every server on a GPU slice.

The spawner is `spawner.systemd`'s, with TLJH's own accounts.  Settings, such as `c.GpuSlices.profiles`, stand in
/opt/tljh/config/hami_hub.py; what is in jupyterhub_config.d beside it is read too late for the page.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pluggy
from traitlets.config.loader import PyFileConfigLoader

import hami_hub

hookimpl = pluggy.HookimplMarker("tljh")

_SETTINGS = "hami_hub.py"
# TLJH closes the hub's service off from the machine's devices; NVML is asked through them.
_DROP_IN = Path("/etc/systemd/system/jupyterhub.service.d/hami-hub.conf")


@hookimpl
def tljh_extra_hub_pip_packages() -> list[str]:
    """What the hub's environment needs."""
    return ["hami-hub[systemd]"]


@hookimpl
def tljh_extra_user_pip_packages() -> list[str]:
    """What the notebooks' environment needs, for `import hami_hub.notebook`."""
    return ["hami-hub[notebook]"]


@hookimpl
def tljh_custom_jupyterhub_config(c: Any) -> None:
    """Start servers on slices, and show the page about them."""
    c.JupyterHub.spawner_class = "hami_hub.spawner.tljh.GpuUserCreatingSpawner"
    folder = Path(os.environ.get("TLJH_INSTALL_PREFIX", "/opt/tljh")) / "config"
    if (folder / _SETTINGS).exists():
        c.merge(PyFileConfigLoader(_SETTINGS, path=str(folder)).load_config())
    hami_hub.setup(c)


@hookimpl
def tljh_post_install() -> None:
    """Let the hub's service see the cards."""
    _DROP_IN.parent.mkdir(parents=True, exist_ok=True)
    _DROP_IN.write_text("[Service]\nPrivateDevices=no\n")
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    subprocess.run(["systemctl", "try-restart", "jupyterhub"], check=True)
