from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cluster.apiserver import connect
from cluster.scheduler.shapes import Pod
from cluster.watch import Watch
from tests.unit.api_server_double import ApiDouble, kubeconfig, refuse, serving

PODS = "/api/v1/pods"


def pod(name: str, version: int, **more) -> dict:
    return {
        "metadata": {"name": name, "resourceVersion": str(version), "managedFields": [{"x": 1}]},
        "status": {},
        **more,
    }


def event(kind: str, obj: dict) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


class Told:
    """A sink that writes down what it is told."""

    def __init__(self) -> None:
        self.news: list[tuple[str, ...]] = []
        self.objects: list[dict] = []
        self._some = asyncio.Event()

    def begin_list(self) -> None:
        self._tell("begin")

    def end_list(self) -> None:
        self._tell("end")

    def put(self, obj) -> None:
        self.objects.append(obj)
        self._tell("put", obj["metadata"]["name"])

    def drop(self, obj) -> None:
        self._tell("drop", obj["metadata"]["name"])

    def _tell(self, *what: str) -> None:
        self.news.append(what)
        self._some.set()

    async def until(self, *last: str) -> None:
        """Wait until `last` was told."""
        while last not in self.news:
            self._some.clear()
            await self._some.wait()


class Server(ApiDouble):
    """Lists `pages`, then streams what the watch is `given`."""

    def __init__(self, *pages: list[dict]) -> None:
        super().__init__()
        self.pages = pages or ([],)
        self.given: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.on("GET", PODS, self.answer)

    def answer(self, request: web.Request, _body):
        return self.stream(request) if "watch" in request.query else self.page(request)

    def page(self, request: web.Request) -> dict:
        number = int(request.query.get("continue", "0"))
        more = {"continue": str(number + 1)} if number + 1 < len(self.pages) else {}
        return {"metadata": {"resourceVersion": "10", **more}, "items": self.pages[number]}

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while (piece := await self.given.get()) is not None:
            await response.write(piece)
        return response

    @property
    def watched_from(self) -> list[str]:
        return [query["resourceVersion"] for query in self.queries if "watch" in query]


@asynccontextmanager
async def watching(server: Server, folder) -> AsyncIterator[tuple[Watch, Told]]:
    told = Told()
    async with serving(server, folder) as api:
        watch = Watch(api, PODS, Pod, told, name="pods")
        task = asyncio.create_task(watch.run())
        try:
            yield watch, told
        finally:
            task.cancel()
            server.given.put_nowait(None)
            await asyncio.gather(task, return_exceptions=True)


async def test_all_pages_are_read_and_only_the_wanted_fields_kept(tmp_path):
    server = Server([pod("a", 1), pod("b", 2)], [pod("c", 3)])
    async with watching(server, tmp_path) as (watch, told):
        await told.until("end")
        assert told.news == [("begin",), ("put", "a"), ("put", "b"), ("put", "c"), ("end",)]
        assert told.objects[0] == {"metadata": {"name": "a", "resourceVersion": "1"}, "status": {}}
        assert watch.synced.is_set()
        assert watch.lost_since is None


async def test_changes_arrive_however_they_are_cut_into_pieces(tmp_path):
    server = Server()
    stream = event("ADDED", pod("a", 11)) + event("MODIFIED", pod("a", 12)) + event("DELETED", pod("a", 13))
    stream += event("ADDED", pod("b", 14))
    for start in range(0, len(stream), 37):
        server.given.put_nowait(stream[start : start + 37])
    async with watching(server, tmp_path) as (_watch, told):
        await told.until("put", "b")
        assert told.news[2:] == [("put", "a"), ("put", "a"), ("drop", "a"), ("put", "b")]


async def test_a_broken_off_watch_goes_on_from_the_last_bookmark(tmp_path):
    server = Server([pod("a", 1)])
    server.given.put_nowait(event("BOOKMARK", {"metadata": {"resourceVersion": "42"}}))
    server.given.put_nowait(None)
    server.given.put_nowait(event("ADDED", pod("b", 43)))
    async with watching(server, tmp_path) as (watch, told):
        await told.until("put", "b")
        assert server.watched_from == ["10", "42"]
        assert watch.relists == 1


@pytest.mark.parametrize("how", ["as an event", "as an answer"])
async def test_a_version_that_the_server_forgot_means_a_new_list(tmp_path, how):
    server = Server([pod("a", 1)])
    refused = []

    def answer(request, body):
        if how == "as an answer" and "watch" in request.query and not refused:
            refused.append(1)
            return refuse(410, "too old resource version")
        return Server.answer(server, request, body)

    server.on("GET", PODS, answer)
    if how == "as an event":
        server.given.put_nowait(event("ERROR", {"kind": "Status", "code": 410, "message": "too old"}))
        server.given.put_nowait(None)
    server.given.put_nowait(event("ADDED", pod("b", 12)))
    async with watching(server, tmp_path) as (watch, told):
        await told.until("put", "b")
        assert told.news.count(("begin",)) == 2
        assert watch.relists == 2


async def test_while_the_server_is_away_it_says_so_and_afterwards_catches_up(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told, server = Told(), Server([pod("a", 1)])
    async with connect(kubeconfig(tmp_path, port), user_agent="test") as api:
        watch = Watch(api, PODS, Pod, told, name="pods")
        task = asyncio.create_task(watch.run())
        await told.until("begin")
        assert watch.lost_since is not None
        assert not watch.synced.is_set()
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", server.handle)
        async with TestServer(application, port=port):
            await told.until("end")
            assert watch.lost_since is None
            server.given.put_nowait(None)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_what_cannot_be_read_means_a_new_list_and_no_end(tmp_path):
    server = Server([pod("a", 1)])
    server.given.put_nowait(b'{"type": "ADDED", "object": {"metadata": 7}}\n')
    server.given.put_nowait(None)
    server.given.put_nowait(event("ADDED", pod("b", 12)))
    async with watching(server, tmp_path) as (_watch, told):
        await told.until("put", "b")
        assert told.news.count(("begin",)) == 2
