"""The demo's proxy: answers arrive as they come, and unchanged."""

from __future__ import annotations

import asyncio
import gzip
import logging

import pytest
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.simple_httpclient import HTTPStreamClosedError
from tornado.testing import bind_unused_port
from tornado.web import Application, RequestHandler

configproxy = pytest.importorskip("configurable_http_proxy.configproxy", reason="needs configurable-http-proxy")

from hami_hub.cli.demo.proxy import StreamingHandler  # noqa: E402

ZIPPED = gzip.compress(b"words " * 100)


class Trickle(RequestHandler):
    """Says one thing, and the next only when it is known that the first arrived."""

    arrived: asyncio.Event

    async def get(self):
        self.set_header("Content-Type", "text/event-stream")
        self.write("data: first\n\n")
        await self.flush()
        await self.arrived.wait()
        await self.finish("data: second\n\n")


class Breaking(RequestHandler):
    async def get(self):
        self.set_header("Content-Length", "100")
        self.write("ten bytes.")
        await self.flush()
        self.request.connection.close()


class Zipped(RequestHandler):
    def get(self):
        self.set_header("Content-Encoding", "gzip")
        self.add_header("Set-Cookie", "a=1")
        self.add_header("Set-Cookie", "b=2")
        self.finish(ZIPPED)

    def head(self):
        self.set_header("Content-Length", "7")


class Echo(RequestHandler):
    def post(self):
        self.set_status(201, "Made")
        self.finish(self.request.body)

    def get(self):
        self.set_status(int(self.get_argument("status")))


@pytest.fixture
async def proxied(monkeypatch):
    """The URL of a proxy in front of the handlers above."""
    Trickle.arrived = asyncio.Event()
    monkeypatch.setattr(configproxy, "ProxyHandler", StreamingHandler)
    routes = [("/trickle", Trickle), ("/breaking", Breaking), ("/zipped", Zipped), ("/echo", Echo)]
    proxy = configproxy.PythonProxy({"log": logging.getLogger("test-proxy")})
    servers, ports = [], []
    for application in (Application(routes), proxy.proxy_app):
        socket, port = bind_unused_port()
        server = HTTPServer(application)
        server.add_socket(socket)
        servers.append(server)
        ports.append(port)
    proxy.add_route("/", {"target": f"http://127.0.0.1:{ports[0]}"})
    socket, dead = bind_unused_port()
    socket.close()
    proxy.add_route("/dead", {"target": f"http://127.0.0.1:{dead}"})
    yield f"http://127.0.0.1:{ports[1]}"
    for server in servers:
        server.stop()
        await server.close_all_connections()


async def fetch(url: str, **options):
    return await AsyncHTTPClient().fetch(url, raise_error=False, **options)


async def test_a_piece_arrives_before_the_answer_ends(proxied):
    pieces = []

    def piece(data: bytes) -> None:
        pieces.append(data)
        Trickle.arrived.set()

    answer = await fetch(f"{proxied}/trickle", streaming_callback=piece)
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert b"".join(pieces) == b"data: first\n\ndata: second\n\n"


async def test_an_answer_is_handed_on_unchanged(proxied):
    answer = await fetch(f"{proxied}/zipped", decompress_response=False)
    assert answer.body == ZIPPED
    assert answer.headers["Content-Encoding"] == "gzip"
    assert answer.headers.get_list("Content-Length") == [str(len(ZIPPED))]
    assert answer.headers.get_list("Set-Cookie") == ["a=1", "b=2"]


async def test_a_posted_body_and_the_status_are_handed_on(proxied):
    answer = await fetch(f"{proxied}/echo", method="POST", body="words")
    assert (answer.code, answer.reason, answer.body) == (201, "Made", b"words")


@pytest.mark.parametrize("status", [204, 304, 404, 500])
async def test_an_answer_without_a_body_is_handed_on(proxied, status):
    assert (await fetch(f"{proxied}/echo?status={status}")).code == status


async def test_an_answer_to_head_keeps_its_length(proxied):
    answer = await fetch(f"{proxied}/zipped", method="HEAD")
    assert (answer.code, answer.headers["Content-Length"], answer.body) == (200, "7", b"")


async def test_an_answer_that_breaks_off_is_not_passed_off_as_a_whole_one(proxied):
    with pytest.raises(HTTPStreamClosedError):
        await fetch(f"{proxied}/breaking")


async def test_a_target_that_is_gone_is_an_error_page(proxied):
    assert (await fetch(f"{proxied}/dead")).code == 503
