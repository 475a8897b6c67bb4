"""Whether the scheduler can do its work, said truly: /readyz is yes only with the books complete, both watches alive
and a certificate to serve.  Beside it /healthz and /metrics, plain HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from cluster.watch import Watch

from .books import Books
from .metrics import Metrics
from .serving import ServingTls

# A watch ends every hour by itself and is there again at once; longer is a loss.
_LOST_AFTER = 5.0


class Health:
    """The handlers of the metrics port.  `stopping` True: no longer ready, whatever else is true."""

    def __init__(self, books: Books, watches: Sequence[Watch[Any]], tls: ServingTls, metrics: Metrics) -> None:
        self._books, self._watches, self._tls, self._metrics = books, watches, tls, metrics
        self.stopping = False

    def application(self) -> web.Application:
        """The server's routes."""
        application = web.Application()
        application.router.add_get("/healthz", self._healthz)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics_page)
        return application

    def problems(self) -> list[str]:
        """Why it isn't ready; nothing: it is."""
        now = time.monotonic()
        found = ["It is stopping."] if self.stopping else []
        for watch in self._watches:
            if not watch.synced.is_set():
                found.append(f"The list of {watch.name} has not been read yet.")
            elif watch.lost_since is not None and now - watch.lost_since > _LOST_AFTER:
                found.append(f"The watch of {watch.name} has had no contact for {now - watch.lost_since:.0f} s.")
        if not self._tls.loaded.is_set():
            found.append("There is no certificate to serve yet.")
        return found

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        problems = self.problems()
        return web.Response(status=503 if problems else 200, text="".join(f"{line}\n" for line in problems) or "ok\n")

    async def _metrics_page(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})
        await response.prepare(request)
        async for piece in self._metrics.exposition(self._books, self._watches):
            await response.write(piece)
        await response.write_eof()
        return response
