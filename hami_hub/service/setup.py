"""Puts the service into a hub's configuration: `hami_hub.setup(c)`."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jupyterhub
from traitlets.config import Config

from .. import journal
from .access import EDIT_SCOPE, VIEW_SCOPE
from .settings import ENV_SETTINGS, PASSED_ON, carried

NAME = "hami"
TEMPLATES = Path(__file__).parent.parent / "templates"
_ACCESS = f"access:services!service={NAME}"


def extend(
    c: Any,
    *,
    url: str = "",
    viewers: Iterable[str] = (),
    viewer_groups: Iterable[str] = (),
) -> None:
    """See `hami_hub.setup`."""
    settings = carried(c)
    kept = settings["GpuSlices"].get("journal_url", journal.DEFAULT_URL)
    if not journal.url_problem(kept):  # else the hub itself says what is wrong with it
        settings["GpuSlices"]["journal_url"] = journal.absolute(kept) if kept else ""
    in_cluster = _in_cluster(c, settings["GpuPage"].get("cards", "auto"))
    settings["GpuPage"]["cards"] = "cluster" if in_cluster else "machine"
    _add(c, "services", _service(settings, url))
    _add(c, "load_roles", _service_role())
    _let_everybody_in(c)
    _update(c, "custom_scopes", {VIEW_SCOPE: {"description": "See everybody's GPU slices, quotas and use."}})
    users, groups = list(viewers), list(viewer_groups)
    if users or groups:
        _add(
            c,
            "load_roles",
            {
                "name": "hami-viewer",
                "description": "Sees everybody's GPU slices, quotas and use.",
                "scopes": [VIEW_SCOPE, _ACCESS],
                "users": users,
                "groups": groups,
            },
        )
    if TEMPLATES.is_dir() and str(TEMPLATES) not in _list(c, "template_paths"):
        _add(c, "template_paths", str(TEMPLATES))


def _service(settings: dict[str, Any], url: str) -> dict[str, Any]:
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {
        "name": NAME,
        "url": url or f"http://127.0.0.1:{_free_port()}",
        "command": [sys.executable, "-m", "hami_hub.service"],
        "environment": {**environment, ENV_SETTINGS: json.dumps(settings)},
        "oauth_no_confirm": True,
        # Writing a quota is done with the person's own token, so that the hub judges it.
        "oauth_client_allowed_scopes": [EDIT_SCOPE, VIEW_SCOPE],
    }


def _service_role() -> dict[str, Any]:
    return {
        "name": "hami-page",
        "description": "What the page about GPU slices reads.",
        "scopes": ["list:groups", "read:groups"],
        "services": [NAME],
    }


def _let_everybody_in(c: Any) -> None:
    roles = _list(c, "load_roles")
    own = next((role for role in roles if role.get("name") == "user"), None)
    if own is None and jupyterhub.version_info[0] >= 6:
        c.JupyterHub.extra_user_scopes = {*_set(c, "extra_user_scopes"), _ACCESS}
        return
    user = {"name": "user", **(own or {})}
    user["scopes"] = [*dict.fromkeys([*user.get("scopes", ["self"]), _ACCESS])]
    c.JupyterHub.load_roles = [*(role for role in roles if role is not own), user]


def _in_cluster(c: Any, cards: str) -> bool:
    if cards != "auto":
        return cards == "cluster"
    spawner = c.JupyterHub.get("spawner_class", "")
    return "kube" in str(spawner).lower() or "KUBERNETES_SERVICE_HOST" in os.environ


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


# --- lists and dictionaries of the configuration, whether set already or only added to -------------------------------


def _value(c: Config, name: str, initial: Any) -> Any:
    if name not in c.JupyterHub:
        return initial
    value = c.JupyterHub[name]
    return value.get_value(initial) if hasattr(value, "get_value") else value


def _list(c: Any, name: str) -> list[Any]:
    return list(_value(c, name, []))


def _set(c: Any, name: str) -> set[Any]:
    return set(_value(c, name, set()))


def _add(c: Any, name: str, item: Any) -> None:
    c.JupyterHub[name] = [*_list(c, name), item]


def _update(c: Any, name: str, items: dict[str, Any]) -> None:
    c.JupyterHub[name] = {**dict(_value(c, name, {})), **items}
