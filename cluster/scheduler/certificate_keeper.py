"""Keeps the server's certificate good: from a Secret that the replicas share, or from files that cert-manager renews.

What is made and when is decided in `certificates`; who else must know the CA is told by `publication`.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from cluster.apiserver import ApiRefused, ApiServer, ApiUnreachable

from .certificates import CertificateError, Material, make, renewed
from .serving import ServingTls

_log = logging.getLogger(__name__)
_LOOKED_AT_EVERY, _SOON = 10.0, 2.0
_NOT_FOUND, _CONFLICT = 404, 409
_ATTEMPTS = 6
_PARTS = {"ca.crt": "ca", "ca.key": "ca_key", "tls.crt": "certificate", "tls.key": "key"}

# True: everybody who should know was there to be told.
Publish = Callable[[bytes], Awaitable[bool]]


class CertificateFailure(Exception):
    """No good certificate could be had this time.  Says why."""


class SecretKeeper:
    """Our own CA in the Secret `name`.  Two replicas may do this at once: the API server decides whose write counts."""

    def __init__(
        self,
        api: ApiServer,
        *,
        namespace: str,
        name: str,
        hosts: Sequence[str],
        tls: ServingTls,
        publish: Publish,
        clock: Callable[[], datetime],
    ) -> None:
        self._api, self._namespace, self._name, self._hosts = api, namespace, name, hosts
        self._tls, self._publish, self._clock = tls, publish, clock
        self._served: Material | None = None

    async def run(self) -> None:
        """`step` again and again; never returns."""
        await _keep(self.step)

    async def step(self) -> bool:
        """See that the Secret's certificates are good, tell the CA to those who need it, then serve.  False: somebody
        wasn't there to be told.

        Raises:
            CertificateFailure, ApiRefused, ApiUnreachable: not this time.
        """
        material = await self._agreed()
        # Whoever is to trust the certificate learns of its CA before it is shown.
        complete = await self._publish(material.ca)
        if material != self._served:
            self._tls.load(material.certificate, material.key)
            self._served = material
        return complete

    async def _agreed(self) -> Material:
        """What all replicas serve: the Secret's, after renewing it if it was due."""
        for _ in range(_ATTEMPTS):
            secret = await self._read()
            found = _decoded((secret or {}).get("data") or {})
            wanted = self._wanted(found)
            if wanted is None and found is not None:
                return found
            if wanted is not None and await self._write(wanted, secret):
                _log.info("New certificates stand in the Secret %s/%s.", self._namespace, self._name)
                return wanted
        raise CertificateFailure(f"The Secret {self._namespace}/{self._name} was changed by others {_ATTEMPTS} times.")

    def _wanted(self, found: Material | None) -> Material | None:
        now = self._clock()
        if found is None:
            return make(self._hosts, now)
        try:
            return renewed(found, self._hosts, now)
        except CertificateError as error:
            _log.warning("The Secret %s/%s: %s New ones are made.", self._namespace, self._name, error)
            return make(self._hosts, now)

    async def _read(self) -> dict[str, Any] | None:
        """The whole Secret; None if there is none."""
        try:
            found: dict[str, Any] = msgspec.json.decode(await self._api.request("GET", self._path(self._name)))
        except ApiRefused as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return found

    async def _write(self, material: Material, found: dict[str, Any] | None) -> bool:
        """Put `material` into the Secret, which was `found`.  False: somebody else was quicker."""
        named = {"name": self._name, "namespace": self._namespace, "labels": {"app.kubernetes.io/part-of": "hami-hub"}}
        secret = found or {"apiVersion": "v1", "kind": "Secret", "metadata": named}
        # with the version that was read, and with whatever others (helm) wrote on it
        body = msgspec.json.encode({**secret, "data": _encoded(material)})
        method, path = ("PUT", self._path(self._name)) if found else ("POST", self._path())
        try:
            await self._api.request(method, path, body)
        except ApiRefused as error:
            if error.status in (_CONFLICT, _NOT_FOUND):
                return False
            raise
        return True

    def _path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self._namespace}/secrets{'/' if name else ''}{name}"


def _encoded(material: Material) -> dict[str, str]:
    return {key: base64.b64encode(getattr(material, part)).decode() for key, part in _PARTS.items()}


def _decoded(data: Mapping[str, str]) -> Material | None:
    """What a Secret holds; None: nothing yet.  What can't be decoded is empty, and no certificate."""
    if not data:
        return None

    def part(key: str) -> bytes:
        try:
            return base64.b64decode(data.get(key, ""))
        except ValueError:
            return b""

    return Material(**{name: part(key) for key, name in _PARTS.items()})


class FileKeeper:
    """`tls.crt`, `tls.key` and `ca.crt` in `folder`, renewed there by somebody else (cert-manager)."""

    def __init__(self, folder: Path, *, tls: ServingTls, publish: Publish) -> None:
        self._folder, self._tls, self._publish = folder, tls, publish
        self._served: tuple[bytes, bytes] | None = None

    async def run(self) -> None:
        """`step` again and again; never returns."""
        await _keep(self.step)

    async def step(self) -> bool:
        """Serve what the files hold now.  False: somebody wasn't there to be told.

        Raises:
            CertificateFailure: a file is missing, or key and certificate don't belong together.
        """
        try:
            certificate, key, ca = ((self._folder / name).read_bytes() for name in ("tls.crt", "tls.key", "ca.crt"))
        except OSError as error:
            raise CertificateFailure(f"{error.filename} can't be read: {error.strerror}.") from None
        complete = await self._publish(ca)
        if (certificate, key) != self._served:
            try:
                self._tls.load(certificate, key)
            except OSError as error:  # ssl.SSLError is one
                raise CertificateFailure(f"The certificate in {self._folder} can't be served: {error}.") from None
            self._served = certificate, key
        return complete


async def _keep(step: Callable[[], Awaitable[bool]]) -> None:
    while True:
        try:
            pause = _LOOKED_AT_EVERY if await step() else _SOON
        except (CertificateFailure, ApiRefused, ApiUnreachable, msgspec.MsgspecError) as error:
            _log.warning("The certificates couldn't be looked after: %s", error)
            pause = _SOON
        await asyncio.sleep(pause)
