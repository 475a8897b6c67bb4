"""The hooks that a plugin may have."""

from __future__ import annotations

from typing import Any

import pluggy

hookspec = pluggy.HookspecMarker("tljh")


@hookspec
def tljh_extra_hub_pip_packages() -> list[str]: ...


@hookspec
def tljh_extra_user_pip_packages() -> list[str]: ...


@hookspec
def tljh_custom_jupyterhub_config(c: Any) -> None: ...


@hookspec
def tljh_post_install() -> None: ...
