"""A JupyterHub that serves nothing but the spawn form: each account of `form_scenes` sees its own situation, and
Start is refused with a text that says what was picked.
"""

import json
import os
import sys
from pathlib import Path

from jupyterhub.auth import DummyAuthenticator
from jupyterhub.spawner import SimpleLocalProcessSpawner, SpawnException

sys.path.insert(0, str(Path(__file__).parent))

from form_scenes import SCENES

from hami_hub.spawner.form import parse_form, render_form


class FormOnlySpawner(SimpleLocalProcessSpawner):
    def options_form(self, spawner):
        return render_form(SCENES[self.user.name])

    def options_from_form(self, formdata):
        return parse_form(formdata)

    async def start(self):
        raise SpawnException(f"Picked {json.dumps(self.user_options, sort_keys=True)}.", reason="picked")


c = get_config()  # noqa: F821
c.JupyterHub.bind_url = os.environ["FORM_HUB_URL"]
c.JupyterHub.hub_port = int(os.environ["FORM_HUB_PORT"])
c.ConfigurableHTTPProxy.api_url = os.environ["FORM_HUB_PROXY"]
c.ConfigurableHTTPProxy.command = [sys.executable, "-c", "from configurable_http_proxy.cli import main; main()"]
c.JupyterHub.db_url = "sqlite:///:memory:"
c.JupyterHub.authenticator_class = DummyAuthenticator
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = FormOnlySpawner
