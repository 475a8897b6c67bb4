"""The demo's proxy: configurable-http-proxy in Python, made to hand answers on as they come.

By itself it waits for the whole of an answer and gives up after 20 s.  The page of a server that waits for room lives
on an answer that goes on and on: it would stay blank.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable
from typing import Any

from configurable_http_proxy import cli, configproxy, handlers  # type: ignore[import-untyped]
from tornado.httpclient import AsyncHTTPClient
from tornado.httputil import HTTPHeaders, parse_response_start_line
from tornado.iostream import StreamClosedError

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding"}
_LONGEST_ANSWER = 24 * 3600  # s
_LARGEST_ANSWER = 1 << 40  # bytes
# Each page that waits holds one connection to the hub; tornado's own limit is 10.
_CONNECTIONS = 1000


class StreamingHandler(handlers.ProxyHandler):  # type: ignore[misc]
    """Hands a request on, and the answer back piece by piece."""

    async def call_proxy(self, path: str | None = None) -> None:
        """Answer the request with what its target says."""
        url = await self.get_target_url(path)
        if url is None:
            return
        request = self._get_proxy_request(url)
        request.header_callback = self._head
        request.streaming_callback = self._piece
        request.decompress_response = False
        request.request_timeout = self.proxy.proxy_timeout or _LONGEST_ANSWER
        self._lines: list[str] = []
        try:
            await AsyncHTTPClient().fetch(request, raise_error=False)
        except Exception as error:
            if not self._headers_written:
                await self.handle_proxy_error(503, error)
            else:  # too late for an error page: the browser sees that the answer breaks off
                self.request.connection.close()
            return
        with contextlib.suppress(StreamClosedError):
            await self.finish()

    def _head(self, line: str) -> None:
        if line.strip():
            self._lines.append(line.rstrip("\r\n"))
            return
        start = parse_response_start_line(self._lines[0])
        self.set_status(start.code, start.reason)
        headers = HTTPHeaders.parse("\n".join(self._lines[1:]))
        for name in {name.lower() for name in headers} - _HOP_BY_HOP:
            self.clear_header(name)
            for value in headers.get_list(name):
                self.add_header(name, value)

    def _piece(self, piece: bytes) -> Awaitable[None]:
        # tornado waits for it from 6.6 on; before that an answer may run ahead of a slow browser
        self.write(piece)
        return self.flush()  # type: ignore[no-any-return]


def main() -> Any:
    """Run the proxy; options are configurable-http-proxy's."""
    AsyncHTTPClient.configure(
        "tornado.simple_httpclient.SimpleAsyncHTTPClient", max_clients=_CONNECTIONS, max_body_size=_LARGEST_ANSWER
    )
    configproxy.ProxyHandler = StreamingHandler
    return cli.main()


if __name__ == "__main__":
    main()
