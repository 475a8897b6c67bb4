"""Reads a jupyterhub_config.py as JupyterHub would, as far as slices are concerned."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from traitlets.config.loader import Config, PyFileConfigLoader


class ConfigError(ValueError):
    """A configuration that can't be read.  One plain sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig:
    """What of it matters here.

    Attributes:
        spawner: name or class of the spawner; "" if none is set.
        profiles: as declared; None: the default ones.
        slice_root: None: the default.
        port: where the hub's proxy listens.
    """

    spawner: str | type
    profiles: Any = None
    slice_root: Path | None = None
    port: int = 8000


def read_hub_config(path: Path) -> HubConfig:
    """What the file says.  It is run, as JupyterHub runs it.

    Raises:
        ConfigError: not there, or it fails.
    """
    if not path.is_file():
        raise ConfigError(f"There is no file {path}.")
    try:
        # it may print, which is not the doctor's answer
        with contextlib.redirect_stdout(io.StringIO()):
            config = PyFileConfigLoader(path.name, path=str(path.absolute().parent)).load_config()
    except SyntaxError as error:
        raise ConfigError(f"{path} has an error in line {error.lineno}: {error.msg}.") from None
    except Exception as error:
        raise ConfigError(f"{path} fails: {type(error).__name__}: {error}.") from None
    return _of_config(config)


def spawner_class(named: str | type) -> type | None:
    """The class that `c.JupyterHub.spawner_class` means; None if there is none of that name."""
    from importlib.metadata import entry_points

    from traitlets import import_item

    if isinstance(named, type):
        return named
    found = [entry for entry in entry_points(group="jupyterhub.spawners") if entry.name.lower() == named.lower()]
    with contextlib.suppress(ImportError, AttributeError):
        loaded = found[0].load() if found else import_item(named)
        return loaded if isinstance(loaded, type) else None
    return None


def _of_config(config: Config) -> HubConfig:
    hub, slices = config.get("JupyterHub", {}), config.get("GpuSlices", {})
    root = slices.get("slice_root")
    return HubConfig(
        spawner=hub.get("spawner_class", ""),
        profiles=slices.get("profiles"),
        slice_root=Path(root) if root else None,
        port=hub.get("port") or urlsplit(str(hub.get("bind_url", ""))).port or 8000,
    )
