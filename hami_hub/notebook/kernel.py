"""Running code in a kernel of another server, over that server's REST API and websocket.  `hub` starts the servers.

Only what the validation notebooks need: one kernel, one cell at a time, its text back.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from .errors import HubError

_MAX_MESSAGE = 16 << 20


@dataclass
class Kernel:
    """A Python kernel in the server at `url`, started at the first `execute`; it ends with the server.

    Attributes:
        url: the server's, with a slash at its end.
        headers: what authorizes a request to it.
        timeout: seconds that one cell may take.
    """

    url: str
    headers: dict[str, str]
    timeout: float = 120
    _id: str = ""
    _session: str = field(default_factory=lambda: uuid.uuid4().hex)

    async def execute(self, code: str) -> str:
        """What `code` prints; an exception is its last line, as "Name: text".

        Raises:
            HubError: the server refuses or doesn't answer in time.
        """
        limit = aiohttp.ClientTimeout(total=self.timeout)
        try:
            async with aiohttp.ClientSession(headers=self.headers, timeout=limit) as session:
                if not self._id:
                    self._id = await self._start(session)
                channels = f"{self.url}api/kernels/{self._id}/channels?session_id={self._session}"
                async with session.ws_connect(channels, max_msg_size=_MAX_MESSAGE) as socket:
                    return await self._converse(socket, code)
        except (aiohttp.ClientError, asyncio.TimeoutError) as error:
            raise HubError(f"{self.url} did not run the code: {str(error) or 'no answer in time'}.") from None

    async def _start(self, session: aiohttp.ClientSession) -> str:
        async with session.post(f"{self.url}api/kernels", json={"name": "python3"}) as response:
            if not response.ok:
                raise HubError(f"{self.url} starts no kernel: {response.status} {response.reason}.")
            return str((await response.json())["id"])

    async def _converse(self, socket: aiohttp.ClientWebSocketResponse[Any], code: str) -> str:
        request = self._request(code)
        await socket.send_json(request)
        printed: list[str] = []
        async for frame in socket:
            if frame.type is not aiohttp.WSMsgType.TEXT:
                continue
            message = json.loads(frame.data)
            if message["parent_header"].get("msg_id") != request["header"]["msg_id"]:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream" and content["name"] == "stdout":
                printed.append(content["text"])
            elif kind == "error":
                printed.append(f"{content['ename']}: {content['evalue']}")
            elif kind == "status" and content["execution_state"] == "idle":
                return "".join(printed).strip()
        raise HubError(f"{self.url} closed the connection before the code was done. Its kernel may have died.")

    def _request(self, code: str) -> dict[str, Any]:
        return {
            "channel": "shell",
            "header": {
                "msg_id": uuid.uuid4().hex,
                "msg_type": "execute_request",
                "session": self._session,
                "username": "",
                "date": "",
                "version": "5.3",
            },
            "parent_header": {},
            "metadata": {},
            "content": {
                "code": code,
                "silent": False,
                "store_history": False,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": True,
            },
        }
