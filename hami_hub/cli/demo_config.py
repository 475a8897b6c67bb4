"""The configuration of the hub that `hami-hub demo` starts.

To begin a hub of your own with it: copy this file, write your own values where `demo` stands, use an authenticator
that knows your people (`c.JupyterHub.authenticator_class`) and a spawner that holds everybody to their slice
(`hami-systemd`).  Here all accounts run as one user of the system: good for trying out, no wall between people.
"""

from __future__ import annotations

import os
import sys
from secrets import compare_digest
from typing import Any

from jupyterhub.auth import Authenticator
from traitlets.config import get_config

import hami_hub
from hami_hub.cards import read_cards
from hami_hub.cli.demo.settings import ADMIN, PEOPLE, Settings

demo = Settings.from_environment()
c: Any = get_config()

# Where people find the hub, and where its parts find each other.
c.JupyterHub.bind_url = c.JupyterHub.public_url = demo.url
c.JupyterHub.hub_bind_url = demo.hub_url
c.JupyterHub.cookie_secret_file = os.path.join(demo.folder, "cookie_secret")
c.JupyterHub.db_url = f"sqlite:///{demo.folder}/hub.sqlite"

# The proxy in Python, so that no Node.js is needed.
c.ConfigurableHTTPProxy.command = [sys.executable, "-m", "hami_hub.cli.demo.proxy"]
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{demo.proxy_port}"
c.ConfigurableHTTPProxy.pid_file = os.path.join(demo.folder, "proxy.pid")

# Nothing outlives the demo.
c.JupyterHub.cleanup_servers = True
c.JupyterHub.cleanup_proxy = True


class OnePassword(Authenticator):  # type: ignore[misc]  # JupyterHub has no types
    """A few accounts with one password."""

    async def authenticate(self, handler: Any, data: dict[str, str]) -> str | None:
        right = compare_digest(data["password"].encode(), demo.password.encode())
        return data["username"] if right else None


c.JupyterHub.authenticator_class = OnePassword
c.Authenticator.allowed_users = {*PEOPLE, ADMIN}
c.Authenticator.admin_users = {ADMIN}

# GPU slices.  The profiles are the default ones: CPU only, 2, 4 and 8 GiB, the whole card, another amount.
c.JupyterHub.spawner_class = "hami-simple"
c.GpuSlices.slice_root = os.path.join(demo.state, "slices")

# JupyterLab, in a home of one's own.
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.args = ["--allow-root"] if os.geteuid() == 0 else []
c.Spawner.default_url = "/lab"
# The first start of JupyterLab on a busy machine takes its time.
c.Spawner.http_timeout = 120
c.SimpleLocalProcessSpawner.home_dir_template = str(demo.homes / "{username}")
# The tools of this environment, `hami-hub smi` among them, are found in a terminal too.
c.Spawner.environment = {
    "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]),
    **{name: os.environ[name] for name in ("HAMI_DEMO_DIR",) if name in os.environ},
}

# Notebooks 02 and 03 start servers of other accounts: the admin's server may do that, nobody else's.
_OWN_SERVER = ["users:activity!user", "access:servers!server"]
_OTHER_SERVERS = ["list:users", "read:users", "admin:servers", "access:servers"]


def server_token_scopes(spawner: Any) -> list[str]:
    return _OWN_SERVER + (_OTHER_SERVERS if spawner.user.admin else [])


c.Spawner.server_token_scopes = server_token_scopes

# Two groups share all the cards.  When both wait, research gets two turns of three, and it may wait for as much again.
# The admin changes that at /services/hami/.
_vram = sum(card.vram for card in read_cards())
c.JupyterHub.load_groups = {
    "research": {"users": ["alice", "bob"], "properties": {"hami.vram": f"{2 * _vram}MiB", "hami.weight": "2"}},
    "students": {
        "users": ["carol"],
        "properties": {"hami.vram": f"{_vram}MiB", "hami.servers-per-user": "1", "hami.max-lifetime": "8h"},
    },
}

# The page about cards, quotas and use.  It comes last: it is told some of the settings above.
hami_hub.setup(c)
