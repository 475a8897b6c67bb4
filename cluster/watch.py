"""One kind of object, kept up to date: listed in pages, then watched, for as long as the daemon lives.

Objects are decoded into a TypedDict that names only the fields that are wanted, so that what isn't needed never becomes
a Python object.  What is made of them is the `Sink`'s matter; `apiserver` carries the bytes.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import aiohttp
import msgspec

from .apiserver import ApiRefused, ApiServer, ApiUnreachable

_log = logging.getLogger(__name__)
_PAGE = 500
_GONE = 410
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# The server sends a bookmark about once a minute; twice that without a byte is a connection that died unseen.
_SILENCE = 130.0
_SERVER_TIMEOUT = 3600

T = TypeVar("T", bound=Mapping[str, Any])
T_contra = TypeVar("T_contra", bound=Mapping[str, Any], contravariant=True)


class Sink(Protocol[T_contra]):
    """Takes the objects of a watch, in the order in which they changed."""

    def begin_list(self) -> None:
        """A new list follows: everything that it doesn't bring is gone."""

    def end_list(self) -> None:
        """The list is whole."""

    def put(self, obj: T_contra) -> None:
        """An object that is there, as it is now."""

    def drop(self, obj: T_contra) -> None:
        """An object that is gone (or no longer selected), as it last was."""


class _Expired(Exception):
    """The server no longer has what came after our version: list again."""


class _ListMeta(msgspec.Struct, rename={"next_page": "continue", "resource_version": "resourceVersion"}):
    resource_version: str = ""
    next_page: str = ""


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _ObjectMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Bookmark(msgspec.Struct):
    metadata: _ObjectMeta


class _ErrorStatus(msgspec.Struct):
    code: int = 0
    message: str = ""


class Watch(Generic[T]):
    """Feeds `sink` with the objects under `path` that `query` selects.  `run` never returns; cancel it.

    Attributes:
        name: for logs, health and metrics.
        synced: whether one list was whole.
        lost_since: `time.monotonic` of the moment when contact was lost; None while there is contact.
        relists: how many lists were read.
    """

    def __init__(
        self,
        api: ApiServer,
        path: str,
        shape: type[T],
        sink: Sink[T],
        *,
        name: str,
        query: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.synced = asyncio.Event()
        self.lost_since: float | None = time.monotonic()
        self.relists = 0
        self._api, self._path, self._sink, self._query = api, path, sink, dict(query or {})
        self._version = ""
        self._page = msgspec.json.Decoder(_page_type(shape))
        self._object = msgspec.json.Decoder(shape)
        self._event = msgspec.json.Decoder(_Event)
        self._bookmark = msgspec.json.Decoder(_Bookmark)

    async def run(self) -> None:
        """List, watch, and begin again where it broke off, with growing pauses while the server is away."""
        pause = _FIRST_PAUSE
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._follow()
                pause = _FIRST_PAUSE
                continue
            except _Expired:
                self._version = ""
                continue
            except (ApiUnreachable, ApiRefused, aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
                if self.lost_since is None:
                    self.lost_since, pause = time.monotonic(), _FIRST_PAUSE
                    _log.warning("The watch of %s broke off: %s", self.name, error)
            except msgspec.MsgspecError as error:
                self.lost_since = self.lost_since or time.monotonic()
                self._version = ""
                _log.warning("The watch of %s brought something that can't be read: %s", self.name, error)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  spreads the load, nothing more
            pause = min(_LONGEST_PAUSE, pause * 2)

    async def _list(self) -> None:
        self._sink.begin_list()
        query = {**self._query, "limit": str(_PAGE)}
        while True:
            try:
                page = self._page.decode(await self._api.request("GET", self._path, query=query, timeout=60))
            except ApiRefused as error:
                raise (_Expired() if error.status == _GONE else error) from None
            for item in page.items:
                self._sink.put(item)
            if not page.metadata.next_page:
                break
            query["continue"] = page.metadata.next_page
        self._sink.end_list()
        self._version = page.metadata.resource_version
        self.relists += 1
        self.lost_since = None
        self.synced.set()

    async def _follow(self) -> None:
        query = {
            **self._query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_SERVER_TIMEOUT),
            "resourceVersion": self._version,
        }
        try:
            async with self._api.stream(self._path, query=query, silence=_SILENCE) as stream:
                self.lost_since = None
                rest = b""
                async for chunk in stream.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                    for line in lines:
                        if line:
                            self._take(line)
        except ApiRefused as error:
            raise (_Expired() if error.status == _GONE else error) from None

    def _take(self, line: bytes) -> None:
        event = self._event.decode(line)
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object, type=_ErrorStatus)
            raise _Expired if status.code == _GONE else ApiRefused(status.code, status.message)
        if event.type == "BOOKMARK":
            self._version = self._bookmark.decode(event.object).metadata.resource_version
            return
        obj = self._object.decode(event.object)
        (self._sink.drop if event.type == "DELETED" else self._sink.put)(obj)
        self._version = obj["metadata"]["resourceVersion"]


def _page_type(shape: type[T]) -> Any:
    return msgspec.defstruct("Page", [("metadata", _ListMeta), ("items", list[shape])])  # type: ignore[valid-type]
