"""The configuration of the hubs that the tests start: settings come as JSON, from `hub_process`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from traitlets.config import get_config

sys.path.insert(0, str(Path(__file__).parents[2]))

import hami_hub
from tests.patient_forms import forms_wait

settings: dict[str, Any] = json.loads(os.environ["HAMI_TEST_HUB"])
folder = Path(settings["folder"])
c: Any = get_config()

c.JupyterHub.bind_url = settings["url"]
c.JupyterHub.hub_bind_url = settings["hub_url"]
# In memory: how fast a disk is makes no difference to when something happens.
c.JupyterHub.db_url = f"sqlite:///{settings['shm']}/hub.sqlite"
c.JupyterHub.cookie_secret_file = str(folder / "cookie_secret")
c.JupyterHub.pid_file = str(folder / "hub.pid")
c.JupyterHub.cleanup_servers = False
# When it answers it knows which servers run.
c.JupyterHub.init_spawners_timeout = -1
c.JupyterHub.allow_named_servers = True
c.JupyterHub.tornado_settings = {"slow_spawn_timeout": settings["patient"] or 0.1}
c.JupyterHub.services = [{"name": "tests", "api_token": settings["token"]}]
c.JupyterHub.load_roles = [
    {
        "name": "tests",
        "services": ["tests"],
        "scopes": ["admin:users", "admin:servers", "admin:groups", "access:servers", "read:metrics"],
    }
]
c.JupyterHub.load_groups = {"research": {"users": ["rita"]}}
c.ConfigurableHTTPProxy.should_start = False
c.ConfigurableHTTPProxy.api_url = settings["proxy_url"]
c.ConfigurableHTTPProxy.auth_token = settings["token"]
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True

c.JupyterHub.spawner_class = settings["spawner"]
# Nothing in these tests may hang on the hub's asking every half a minute whether a server still runs.
c.Spawner.poll_interval = 3600
c.Spawner.consecutive_failure_limit = 3
c.Spawner.cmd = [sys.executable, settings["server"]]
c.Spawner.env_keep = ["PATH", "PYTHONPATH"]
c.LocalProcessSpawner.interrupt_timeout = 2
c.SystemdSpawner.unit_extra_properties = {"TimeoutStopSec": "1s"}
c.SimpleLocalProcessSpawner.home_dir_template = str(folder / "homes" / "{username}")
c.GpuSlices.slice_root = settings["slice_root"]
c.GpuSlices.profiles = [
    {"name": "cpu", "title": "CPU only", "gpu": False},
    {"name": "small", "title": "4 GiB · 25 %", "vram": "4 GiB", "cores": 25},
    {"name": "half", "title": "8 GiB · 50 %", "vram": "8 GiB", "cores": 50},
    {"name": "whole", "title": "Whole card"},
    {"name": "other", "title": "Another amount", "vram": "2 GiB", "min_vram": "256 MiB", "max_cores": 80},
    {"name": "research", "title": "Research", "vram": "1 GiB", "groups": ["research"]},
]


def before_spawn(spawner: Any) -> None:
    """The user's name says what is wrong with their server."""
    if spawner.user.name.startswith("noprogram"):
        spawner.cmd = ["/no/such/program"]
    if spawner.user.name.startswith("mute"):
        spawner.http_timeout = 2
    if spawner.user.name.startswith("homeless") and hasattr(spawner, "home_dir"):
        spawner.home_dir = "/dev/null/home"
    if spawner.user.name.startswith("homeless") and hasattr(spawner, "image"):
        spawner.environment = {**spawner.environment, "HOME": "/proc"}


c.Spawner.pre_spawn_hook = before_spawn

if settings["patient"]:
    forms_wait(lambda: settings["patient"])

for name, values in settings["config"].items():
    c[name].update(values)

if "DockerSpawner" in settings["config"]:
    c.DockerSpawner.read_only_volumes[settings["server"]] = settings["server"]

if settings.get("page") is not None:
    hami_hub.setup(c, **settings["page"])
