"""A JupyterHub that serves nothing but the spawn form and the waiting page: each account of `form_scenes` sees its own
situation, and Start is refused with a text that says what was picked.

Files in its folder, written by the tests, change what an account sees: `<account>.scene` names another account's scene,
`<account>.news` makes Start wait and tells what stands in it (see `ScriptedStart`).
"""

import asyncio
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from jupyterhub.auth import DummyAuthenticator
from jupyterhub.spawner import SimpleLocalProcessSpawner

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

from form_scenes import SCENES

import hami_hub
from hami_hub.core.budgets import same_group
from hami_hub.core.language import speaking
from hami_hub.languages import best_language, translator
from hami_hub.spawner.cancelling import cancel_url
from hami_hub.spawner.errors import GpuSpawnError, Reason
from hami_hub.spawner.form import ShowForm, parse_form, read_link, render_form, waiting_view
from hami_hub.spawner.news import News
from tests.patient_forms import forms_wait

FOLDER = Path.cwd()

# A start that waits is left to its own page.
forms_wait(lambda: 0 if any(FOLDER.glob("*.news")) else 60)


class ScriptedStart(SimpleLocalProcessSpawner):
    """Lines of `<account>.news` are told one after the other: JSON of `News.tell`'s arguments, or {"fail": "why"}."""

    news = None
    linked = None

    def language(self):
        return best_language(self.handler.request.headers.get("Accept-Language")) if self.handler else "en"

    def options_form(self, spawner):
        language = self.language()
        other = FOLDER / f"{self.user.name}.scene"
        with speaking(translator(language)):
            context = SCENES[other.read_text() if other.exists() else self.user.name]()
            linked, self.linked = self.linked, None
            if linked:
                group = linked.get("group", "")
                budgets = tuple(replace(line, chosen=same_group(line.group, group)) for line in context.budgets)
                context = replace(context, chosen=linked, linked=True, budgets=budgets)
            return render_form(replace(context, language=language))

    def options_from_form(self, formdata):
        return parse_form(formdata)

    def options_from_query(self, query_data):
        link = read_link(query_data)
        if link.starts:
            return link.options
        self.linked = link.options
        raise ShowForm

    def waiting_page(self):
        with speaking(translator(self.language())):
            return waiting_view(self.news, self.language(), cancel_url(self.handler, self.user, self.name))

    async def progress(self):
        async for message in self.news.follow():
            yield message

    async def start(self):
        script, told = FOLDER / f"{self.user.name}.news", 0
        if not script.exists():
            raise GpuSpawnError(f"Picked {json.dumps(self.user_options, sort_keys=True)}.", reason=Reason.NO_ROOM)
        self.news = News()
        try:
            while True:
                lines = script.read_text().splitlines()
                for line in map(json.loads, lines[told:]):
                    told += 1
                    if "fail" in line:
                        raise GpuSpawnError(line["fail"], reason=Reason.NO_ROOM)
                    self.news.tell(**line)
                await asyncio.sleep(0.05)
        finally:
            self.news.close()

    async def poll(self):
        return None if self.pending else 1

    async def stop(self, now=False):
        pass


c = get_config()  # noqa: F821
c.JupyterHub.bind_url = os.environ["FORM_HUB_URL"]
c.JupyterHub.hub_port = int(os.environ["FORM_HUB_PORT"])
c.JupyterHub.template_paths = [str(Path(hami_hub.__file__).parent / "templates")]
c.JupyterHub.allow_named_servers = True
c.ConfigurableHTTPProxy.api_url = os.environ["FORM_HUB_PROXY"]
c.ConfigurableHTTPProxy.command = [sys.executable, "-m", "hami_hub.cli.demo.proxy"]  # hands progress on as it comes
c.JupyterHub.db_url = "sqlite:///hub.sqlite"
c.JupyterHub.authenticator_class = DummyAuthenticator
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = ScriptedStart
