"""The configuration of a JupyterHub on the test cluster, as zero-to-jupyterhub's would set it; values come as JSON."""

from __future__ import annotations

import json
import os
from typing import Any

from traitlets.config import get_config

import hami_hub

settings: dict[str, Any] = json.loads(os.environ["HAMI_TEST_HUB"])
c: Any = get_config()
# Where the hub's volume is: its database lies there, and the journal.
os.chdir(settings["folder"])

c.JupyterHub.bind_url = settings["url"]
c.JupyterHub.hub_bind_url = settings["hub_url"]
c.JupyterHub.hub_connect_url = settings["hub_url"]
c.JupyterHub.db_url = f"sqlite:///{settings['folder']}/hub.sqlite"
c.JupyterHub.cookie_secret_file = f"{settings['folder']}/cookie_secret"
c.JupyterHub.pid_file = f"{settings['folder']}/hub.pid"
c.JupyterHub.cleanup_servers = False
c.JupyterHub.allow_named_servers = True
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": 0}
c.JupyterHub.services = [{"name": "tests", "api_token": settings["token"]}]
c.JupyterHub.load_roles = [
    {
        "name": "tests",
        "services": ["tests"],
        "scopes": [
            *("admin:users", "admin:servers", "admin:server_state", "admin:groups"),
            *("access:servers", "read:metrics"),
        ],
    }
]
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = settings["proxy_url"]
c.ConfigurableHTTPProxy.auth_token = settings["token"]
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = settings["spawner"]
c.Spawner.consecutive_failure_limit = 3

for name, values in settings["config"].items():
    c[name].update(values)

if settings["page"] is not None:
    hami_hub.setup(c, **settings["page"])
