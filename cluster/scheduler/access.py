"""Who may read the inventory: whoever the API server knows and lets `get` the path /hami/inventory.

Two questions to the API server, whose answers hold for a minute.  A token is kept only as its hash.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from cluster.apiserver import ApiRefused, ApiServer, ApiUnreachable

PATH = "/hami/inventory"
_GOOD_FOR = 60.0
_MOST = 1000

_Shape = TypeVar("_Shape")


class AccessDenied(Exception):
    """No.  `status` is HTTP's: 401, 403, or 503 when nobody could be asked; the text says why."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenStatus = msgspec.field(default_factory=_TokenStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class Access:
    """Asks the API server about bearer tokens."""

    def __init__(self, api: ApiServer, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._known: OrderedDict[bytes, tuple[float, AccessDenied | None]] = OrderedDict()

    async def check(self, authorization: str | None) -> None:
        """Let the bearer of the header `authorization` pass.

        Raises:
            AccessDenied: with the status to answer.
        """
        scheme, _, token = (authorization or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            raise AccessDenied(401, "Send a ServiceAccount's token: Authorization: Bearer …")
        key = hashlib.sha256(token.encode()).digest()
        until, verdict = self._known.get(key, (0.0, None))
        if until <= self._clock():
            verdict = await self._ask(token)
            self._known[key] = self._clock() + _GOOD_FOR, verdict
            self._known.move_to_end(key)
            if len(self._known) > _MOST:
                self._known.popitem(last=False)
        if verdict is not None:
            raise verdict

    async def _ask(self, token: str) -> AccessDenied | None:
        try:
            review = await self._review("authentication.k8s.io/v1", "TokenReview", {"token": token}, _TokenReview)
            if not review.status.authenticated:
                return AccessDenied(401, "The cluster doesn't know this token.")
            user = review.status.user
            asked = {
                "user": user.username,
                "uid": user.uid,
                "groups": user.groups,
                "nonResourceAttributes": {"path": PATH, "verb": "get"},
            }
            answer = await self._review("authorization.k8s.io/v1", "SubjectAccessReview", asked, _AccessReview)
        except (ApiRefused, ApiUnreachable, msgspec.MsgspecError) as error:
            raise AccessDenied(503, f"Whether the token may read this couldn't be asked: {error}") from None
        if answer.status.allowed:
            return None
        return AccessDenied(
            403, f"{user.username} may not get {PATH}. Bind the ClusterRole hami-hub-inventory-reader to it."
        )

    async def _review(self, version: str, kind: str, spec: Mapping[str, object], shape: type[_Shape]) -> _Shape:
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        return msgspec.json.decode(
            await self._api.request("POST", f"/apis/{version}/{kind.lower()}s", body), type=shape
        )
