"""Cancelling a start by a plain form, for browsers without JavaScript: JupyterHub itself takes it by its REST API only.

The hub learns to take the form when the first page that has it is drawn.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

from jupyterhub.handlers import BaseHandler
from jupyterhub.scopes import needs_scope
from jupyterhub.utils import url_escape_path, url_path_join
from tornado import web

_PLACE = "cancel-start"
# So long a cancelled start may take to end, before the page is shown again that tells of it.
_ENDING_SECONDS = 10.0


def cancel_url(handler: BaseHandler | None, user: Any, server: str) -> str:
    """Where a form is to be sent, with the hub's `_xsrf`, that cancels the start of a server.

    Args:
        handler: of the request that began the start; None: nobody knows, so there is nowhere.
        user: the hub's, whose server it is.
        server: its name.
    """
    if handler is None:
        return ""
    place = url_path_join(handler.hub.base_url, _PLACE)
    taken = handler.application.settings
    if _PLACE not in taken:
        taken[_PLACE] = True
        handler.application.add_handlers(".*", [(rf"{re.escape(place)}/([^/]+)(?:/([^/]+))?", CancelHandler)])
    path: str = url_path_join(place, user.escaped_name, url_escape_path(server))
    return path


class CancelHandler(BaseHandler):  # type: ignore[misc]
    """Cancels the start of a server, as the hub's API does, and leads to the form."""

    @web.authenticated
    def post(self, user_name: str, server_name: str | None = None) -> Any:
        """Cancel it.  What runs by now is left alone: the form's address leads there."""
        return self._cancel(user_name=user_name, server_name=server_name or "")

    @needs_scope("delete:servers")  # type: ignore[untyped-decorator]
    async def _cancel(self, user_name: str, server_name: str) -> None:
        user = self.find_user(user_name)
        if user is None or server_name not in user.spawners:
            raise web.HTTPError(404)
        spawner = user.spawners[server_name]
        if spawner.pending == "spawn":
            self.log.info("The start of %s is cancelled.", spawner._log_name)
            starting = spawner._spawn_future
            if starting is not None:
                starting.cancel()
                await asyncio.wait({starting}, timeout=_ENDING_SECONDS)
            # What may have come of it runs, as far as the hub knows.
            if not spawner.pending:
                await self.stop_single_user(user, server_name)
        self.redirect(url_path_join(self.hub.base_url, "spawn", user.escaped_name, url_escape_path(server_name)))
