"""The hub client against a REST API that answers as told; tests/notebooks meets a real hub."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from hami_hub.notebook.errors import HubError
from hami_hub.notebook.hub import Hub, Server

REQUESTED = {"progress": 0, "message": "Server requested"}
WAITS = {"progress": 10, "message": "You are 1st in line."}
READY = {"progress": 100, "ready": True, "message": "Server ready at /user/bob/", "url": "/user/bob/"}
FAILED = {"progress": 100, "failed": True, "message": "Spawn failed: no room"}


class FakeHub:
    """`answer` is what a start gets, `events` what its progress tells."""

    def __init__(self) -> None:
        self.answer: tuple[int, Any] = (202, "")
        self.events: list[dict[str, Any]] = []
        self.asked: list[Any] = []

    async def start(self, request: web.Request) -> web.Response:
        self.asked.append((request.match_info["name"], await request.json(), request.headers["Authorization"]))
        status, body = self.answer
        return web.Response(status=status, text=body if isinstance(body, str) else json.dumps(body))

    async def progress(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in self.events:
            await response.write(f"\n\ndata: {json.dumps(event)}\n\n".encode())
        return response


@pytest.fixture
async def fake() -> AsyncIterator[tuple[FakeHub, Hub]]:
    hub = FakeHub()
    app = web.Application()
    app.router.add_post("/hub/api/users/{name}/server", hub.start)
    app.router.add_get("/hub/api/users/{name}/server/progress", hub.progress)
    async with TestServer(app) as server:
        root = str(server.make_url("/"))
        yield hub, Hub(api_url=f"{root}hub/api", token="secret", public_url=root)


async def test_the_options_are_the_whole_body_as_every_jupyterhub_takes_them(fake: tuple[FakeHub, Hub]) -> None:
    hub, client = fake
    await client.ask("bob", profile="gpu-other", vram="3 GiB")
    assert hub.asked == [("bob", {"profile": "gpu-other", "vram": "3 GiB"}, "token secret")]


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        pytest.param(403, {"message": "x"}, "Open this notebook as an admin", id="not an admin"),
        pytest.param(404, {"message": "x"}, "The hub has no account bob.", id="unknown account"),
        pytest.param(400, {"message": "bob is already running"}, "bob's server already runs.", id="already running"),
        pytest.param(409, {"message": "9 TiB can never fit here."}, "9 TiB can never fit here.", id="the hub's words"),
        pytest.param(502, "<html>", "did not say why. See the hub's log.", id="no words"),
    ],
)
async def test_a_refused_start_is_told_in_a_sentence(
    fake: tuple[FakeHub, Hub], status: int, body: Any, sentence: str
) -> None:
    hub, client = fake
    hub.answer = (status, body)
    with pytest.raises(HubError) as caught:
        await client.ask("bob", profile="gpu-4g")
    assert sentence in str(caught.value)


async def test_the_reason_for_waiting_is_the_hubs(fake: tuple[FakeHub, Hub]) -> None:
    hub, client = fake
    hub.events = [REQUESTED, WAITS, READY]
    assert await Server(client, "bob").waits() == "You are 1st in line."


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        pytest.param([REQUESTED, READY], "did not have to wait", id="ready at once"),
        pytest.param([REQUESTED, FAILED], "bob: Spawn failed: no room", id="failed"),
        pytest.param([REQUESTED], "stopped telling", id="cut off"),
    ],
)
async def test_no_waiting_is_no_reason(fake: tuple[FakeHub, Hub], events: list[dict[str, Any]], sentence: str) -> None:
    hub, client = fake
    hub.events = events
    with pytest.raises(HubError, match=sentence):
        await Server(client, "bob").waits()


async def test_the_way_to_ready_is_printed(fake: tuple[FakeHub, Hub], capsys: pytest.CaptureFixture[str]) -> None:
    hub, client = fake
    hub.events = [REQUESTED, WAITS, READY]
    await client.start("bob", profile="gpu-4g")
    assert capsys.readouterr().out.splitlines() == [
        "bob: Server requested",
        "bob: You are 1st in line.",
        "bob: Server ready at /user/bob/",
    ]


async def test_a_start_that_fails_later_is_told(fake: tuple[FakeHub, Hub]) -> None:
    hub, client = fake
    hub.events = [REQUESTED, WAITS, FAILED]
    with pytest.raises(HubError, match="bob: Spawn failed: no room"):
        await client.start("bob", profile="gpu-4g")


async def test_code_needs_a_server_that_is_ready(fake: tuple[FakeHub, Hub]) -> None:
    server = await fake[1].ask("bob", profile="gpu-4g")
    with pytest.raises(HubError, match="is not ready"):
        await server.run("1")


async def test_a_hub_that_is_gone_is_told() -> None:
    with pytest.raises(HubError, match="doesn't answer"):
        await Hub(api_url="http://127.0.0.1:1/hub/api", public_url="http://127.0.0.1:1/").ask("bob", profile="x")


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        pytest.param({}, "doesn't run in a server of a JupyterHub", id="no hub"),
        pytest.param({"JUPYTERHUB_API_URL": "http://127.0.0.1:8081/hub/api"}, "public_url", id="no public address"),
    ],
)
def test_outside_a_hub_the_way_out_is_told(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], sentence: str
) -> None:
    for name in ("JUPYTERHUB_API_URL", "JUPYTERHUB_API_TOKEN", "JUPYTERHUB_PUBLIC_HUB_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(HubError, match=sentence):
        Hub()
