"""What the service asks of the hub's REST API, and what it does when the hub says no or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from hami_hub.service.hubapi import Hub, HubError


class HubDouble:
    """Some of a hub's API; `asked` is what it was asked."""

    def __init__(self) -> None:
        self.groups = [
            {"name": f"group{n}", "properties": {"hami.servers": str(n)}, "users": ["a"] * n} for n in range(450)
        ]
        self.asked: list[tuple[str, str, str]] = []
        self.status = 200

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.method, request.path, request.headers["Authorization"]))
        if self.status != 200:
            return web.json_response({"message": "Forbidden thing"}, status=self.status)
        if request.method == "PUT":
            return web.json_response({"name": "group1", "properties": await request.json(), "users": []})
        if request.path.startswith("/hub/api/groups/"):
            name = request.match_info["rest"].split("/")[1]
            found = [group for group in self.groups if group["name"] == name]
            return web.json_response(found[0]) if found else web.json_response({"message": "No such group"}, status=404)
        offset, limit = int(request.query["offset"]), int(request.query["limit"])
        rest = {"offset": offset + limit} if offset + limit < len(self.groups) else None
        return web.json_response({"items": self.groups[offset : offset + limit], "_pagination": {"next": rest}})


Made = Callable[[HubDouble], Awaitable[Hub]]


@pytest.fixture
async def hub() -> AsyncIterator[Made]:
    servers = []

    async def make(double: HubDouble) -> Hub:
        application = web.Application()
        application.router.add_route("*", "/hub/api/{rest:.*}", double.answer)
        server = TestServer(application)
        await server.start_server()
        servers.append(server)
        return Hub(f"http://127.0.0.1:{server.port}/hub/api", "own")

    yield make
    for server in servers:
        await server.close()


async def test_all_groups_are_read_page_by_page_and_kept_for_a_while(hub):
    double = HubDouble()
    asked = await hub(double)
    groups = await asked.groups()
    assert len(groups) == 450
    assert (groups[7].name, groups[7].members, groups[7].properties) == ("group7", 7, {"hami.servers": "7"})
    await asked.groups()
    assert len(double.asked) == 3
    asked.forget_groups()
    await asked.groups()
    assert len(double.asked) == 6


async def test_a_hub_that_is_away_leaves_the_groups_that_were_known(hub):
    double = HubDouble()
    asked = await hub(double)
    await asked.groups()
    double.status = 503
    asked.forget_groups()
    assert len(await asked.groups()) == 450
    assert asked.problem == "The hub doesn't answer."


@pytest.mark.parametrize(
    ("status", "words"),
    [(403, "The hub says no: Forbidden thing."), (500, "The hub doesn't answer."), (502, "The hub doesn't answer.")],
)
async def test_what_the_hub_refuses_is_said(hub, status, words):
    double = HubDouble()
    double.status = status
    with pytest.raises(HubError) as caught:
        await (await hub(double)).set_properties("group1", {}, "hers")
    assert str(caught.value) == words


async def test_a_group_that_is_not_there_is_said_with_a_way_out(hub):
    with pytest.raises(HubError, match=r'There is no group "x y" in JupyterHub. Check the name'):
        await (await hub(HubDouble())).group("x y")


async def test_nobody_at_all_answers():
    with pytest.raises(HubError, match="The hub doesn't answer"):
        await Hub("http://127.0.0.1:9/hub/api", "own").group("ml")


async def test_a_quota_is_written_with_the_writers_token(hub):
    double = HubDouble()
    written = await (await hub(double)).set_properties("group1", {"hami.vram": "1GiB"}, "hers")
    assert written.properties == {"hami.vram": "1GiB"}
    assert double.asked == [("PUT", "/hub/api/groups/group1/properties", "token hers")]
