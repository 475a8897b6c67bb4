"""The service with a scene of `page_scenes` in place of cards and journal, and a hub of a few lines: run as a process,
`page_service.py SCENE PORT`.  Who asks says so by a token that is their name.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from jupyterhub._data import DATA_FILES_PATH
from page_scenes import SCENES, SCRIPT, Scene
from tornado.escape import url_unescape
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from hami_hub.core.history import Start
from hami_hub.core.units import Mib
from hami_hub.journal import Reader
from hami_hub.journal.place import engine_to_write
from hami_hub.journal.tables import migrate, starts, to_row
from hami_hub.service.sight import Sight

PREFIX = "/services/hami/"
ACCESS = "access:services!service=hami"
SCOPES = {"ada": [ACCESS, "groups"], "bea": [ACCESS, "groups"], "vera": [ACCESS, "custom:hami:view"]}


class SceneEyes:
    """Sees the scene; `more` MiB are in use of the first slice at every look, so that something happens."""

    def __init__(self, scene: Scene, more: int) -> None:
        self.scene, self.more, self.looks = scene, more, 0

    async def look(self) -> Sight:
        self.looks += 1
        sight = self.scene.sight
        slices = [
            replace(each, used=Mib(((each.used or 0) + self.looks * self.more) % each.vram)) if self.more else each
            for each in sight.slices
        ]
        return replace(sight, slices=tuple(slices))


class FakeHub(RequestHandler):
    """What the service asks of a hub: who somebody is, and groups."""

    def initialize(self, scene: Scene) -> None:
        self.scene = scene

    def prepare(self) -> None:
        if not self.scene.hub and not self.request.path.endswith("/user"):
            self.set_status(502)
            self.finish()

    def get(self, path: str) -> None:
        if path == "user":
            token = self.request.headers["Authorization"].split()[1]
            name = SCRIPT if token == "mallory" else token
            groups = [group for group, (_, users) in self.scene.groups.items() if name in users]
            self.answer({"kind": "user", "name": name, "groups": groups, "scopes": SCOPES.get(name, [ACCESS])})
        elif path == "groups":
            offset, limit = (int(self.get_argument(name)) for name in ("offset", "limit"))
            names = list(self.scene.groups)[offset : offset + limit]
            rest = len(self.scene.groups) > offset + limit
            self.answer({"items": [self.group(name) for name in names], "_pagination": {"next": {} if rest else None}})
        elif self.named() in self.scene.groups:
            self.answer(self.group(self.named()))
        else:
            self.set_status(404)
            self.answer({"message": "No such group"})

    def put(self, path: str) -> None:
        _, users = self.scene.groups[self.named()]
        self.scene.groups[self.named()] = (json.loads(self.request.body), users)
        self.answer(self.group(self.named()))

    def named(self) -> str:
        """The group in the address, whose name may have slashes."""
        return url_unescape(self.request.path.split("/")[4], plus=False)

    def group(self, name: str) -> dict[str, Any]:
        properties, users = self.scene.groups[name]
        return {"kind": "group", "name": name, "properties": properties, "users": users}

    def answer(self, said: Any) -> None:
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(said))


def write_journal(url: str, all_starts: tuple[Start, ...]) -> None:
    """All in one go, past the hub's writer, which takes them as they happen."""
    with engine_to_write(url).begin() as connection:
        migrate(connection)
        rows = [to_row({name: getattr(each, name) for name in Start.__slots__}) for each in all_starts]
        if rows:
            connection.execute(starts.insert(), rows)


class Logo(RequestHandler):
    """The hub's."""

    def get(self) -> None:
        self.set_header("Content-Type", "image/png")
        self.write((Path(DATA_FILES_PATH) / "static" / "images" / "jupyterhub-80.png").read_bytes())


async def main(name: str, port: int, more: int = 0) -> None:
    scene = SCENES[name]()
    hub = HTTPServer(Application([(r"/hub/api/(.*)", FakeHub, {"scene": scene})]))
    sockets = bind_sockets(0, "127.0.0.1")
    hub.add_sockets(sockets)
    os.environ.update(
        JUPYTERHUB_API_URL=f"http://127.0.0.1:{sockets[0].getsockname()[1]}/hub/api",
        JUPYTERHUB_API_TOKEN="hami",
        JUPYTERHUB_CLIENT_ID="service-hami",
        JUPYTERHUB_SERVICE_PREFIX=PREFIX,
        JUPYTERHUB_BASE_URL="/",
        JUPYTERHUB_OAUTH_ACCESS_SCOPES=json.dumps([ACCESS]),
    )
    # read from the environment at their first import
    from hami_hub.service.__main__ import application
    from hami_hub.service.base import Parts, templates_in
    from hami_hub.service.hubapi import Hub
    from hami_hub.service.live import Live
    from hami_hub.service.quotas import Quotas
    from hami_hub.service.records import Records

    with tempfile.TemporaryDirectory(prefix="hami-page-") as folder:
        url = f"sqlite:///{folder}/journal.sqlite"
        if scene.starts is not None:
            write_journal(url, scene.starts)
        records = Records(Reader(url))
        api = Hub(os.environ["JUPYTERHUB_API_URL"], "hami")
        live = Live(SceneEyes(scene, more), records, api, default_quota=scene.default_quota)
        import hami_hub.service

        parts = Parts(
            live=live,
            records=records,
            quotas=Quotas(api, records, live),
            hub=api,
            default_quota=scene.default_quota,
            templates=templates_in(str(Path(hami_hub.service.__file__).parent / "templates")),
        )
        served = application(parts, PREFIX, b"secret")
        served.add_handlers(".*", [(r"/hub/logo", Logo)])
        HTTPServer(served).listen(port, "127.0.0.1")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0))
