"""Who must know where the scheduler is and which CA to trust: the API server for the webhook, the hubs for the
inventory.
"""

from __future__ import annotations

import base64
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from cluster.apiserver import APPLY_PATCH, STRATEGIC_MERGE_PATCH, ApiRefused, ApiServer

_log = logging.getLogger(__name__)
_NOT_FOUND = 404
# Somebody may have changed or removed a ConfigMap of ours: it is put right after this many seconds.
_AGAIN_AFTER = 600.0


class _ClientConfig(msgspec.Struct, rename={"ca_bundle": "caBundle"}):
    ca_bundle: str = ""


class _Webhook(msgspec.Struct, rename={"client_config": "clientConfig"}):
    name: str
    client_config: _ClientConfig


class _WebhookConfiguration(msgspec.Struct):
    webhooks: list[_Webhook] = []


@dataclass(frozen=True, slots=True)
class HubFacts:
    """What the ConfigMap says to a hub, beside the CA.

    Attributes:
        url: of the inventory.
        scheduler_name: schedulerName of pods that hold slices.
        resources: the five resource names, as JSON.
    """

    url: str
    scheduler_name: str
    resources: str


class Publication:
    """Tells the CA.  `webhook` None: somebody else (cert-manager) keeps the webhook's configuration."""

    def __init__(
        self, api: ApiServer, *, webhook: str | None, config_map: str, namespaces: Sequence[str], facts: HubFacts
    ) -> None:
        self._api, self._webhook, self._config_map, self._namespaces = api, webhook, config_map, tuple(namespaces)
        self._facts = facts
        self._told: dict[str, tuple[bytes, float]] = {}
        self._warned: set[str] = set()

    async def tell(self, ca: bytes) -> bool:
        """See that everybody has the bundle `ca`.  False: a namespace or configuration isn't there; the log says so.

        Raises:
            ApiRefused, ApiUnreachable: the API server wouldn't or couldn't.
        """
        complete = self._webhook is None or await self._patch_webhook(self._webhook, ca)
        now = time.monotonic()
        for namespace in self._namespaces:
            told, at = self._told.get(namespace, (b"", 0.0))
            if told != ca or now - at > _AGAIN_AFTER:
                if await self._apply_config_map(namespace, ca):
                    self._told[namespace] = ca, now
                else:
                    complete = False
        return complete

    async def _patch_webhook(self, name: str, ca: bytes) -> bool:
        path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{name}"
        try:
            found = msgspec.json.decode(await self._api.request("GET", path), type=_WebhookConfiguration)
        except ApiRefused as error:
            if error.status != _NOT_FOUND:
                raise
            self._warn_once(f"There is no MutatingWebhookConfiguration {name}: no pod is looked at when it is created.")
            return False
        bundle = base64.b64encode(ca).decode()
        stale = [webhook.name for webhook in found.webhooks if webhook.client_config.ca_bundle != bundle]
        if stale:
            patch = {"webhooks": [{"name": one, "clientConfig": {"caBundle": bundle}} for one in stale]}
            await self._api.request("PATCH", path, msgspec.json.encode(patch), content_type=STRATEGIC_MERGE_PATCH)
            _log.info("The webhook configuration %s has the CA.", name)
        return True

    async def _apply_config_map(self, namespace: str, ca: bytes) -> bool:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": self._config_map, "labels": {"app.kubernetes.io/part-of": "hami-hub"}},
            "data": {
                "url": self._facts.url,
                "ca.crt": ca.decode(),
                "schedulerName": self._facts.scheduler_name,
                "resources": self._facts.resources,
            },
        }
        path = f"/api/v1/namespaces/{namespace}/configmaps/{self._config_map}"
        query = {"fieldManager": "hami-scheduler", "force": "true"}
        try:
            await self._api.request("PATCH", path, msgspec.json.encode(body), query=query, content_type=APPLY_PATCH)
        except ApiRefused as error:
            if error.status != _NOT_FOUND:
                raise
            self._warn_once(f"There is no namespace {namespace}: a hub there can't be told where the inventory is.")
            return False
        return True

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            _log.warning(text)
