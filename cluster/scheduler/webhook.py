"""The admission webhook: every new pod that asks for a slice is judged once, and made ours.

`hami_hub.core.admission` judges; this only speaks AdmissionReview, and answers whatever is sent in words.
"""

from __future__ import annotations

import base64
import logging
import time
from typing import Any

import msgspec
from aiohttp import web

from hami_hub.core.admission import Judgement, judge_pod
from hami_hub.core.pods import PodRules

from .metrics import Metrics

_log = logging.getLogger(__name__)
# The API server takes objects of 3 MiB; a review may carry the old one too.
MAX_BODY = 7 * 1024 * 1024
_API_VERSION, _KIND = "admission.k8s.io/v1", "AdmissionReview"


class AdmissionRequest(msgspec.Struct):
    """What is asked.  `object` is the pod."""

    uid: str
    object: dict[str, Any] | None = None
    namespace: str = ""


class AdmissionReview(msgspec.Struct, rename="camel"):
    """What the API server sends."""

    api_version: str
    kind: str
    request: AdmissionRequest | None = None


class Webhook:
    """The handler for `POST /webhook`."""

    def __init__(self, rules: PodRules, metrics: Metrics) -> None:
        self._rules, self._metrics = rules, metrics
        self._decoder = msgspec.json.Decoder(AdmissionReview)

    async def handle(self, request: web.Request) -> web.Response:
        """Judge one pod.  Too long a body is answered 413 by the server."""
        began = time.perf_counter()
        try:
            review = self._decoder.decode(await request.read())
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            return self._unreadable(began, f"The body is no {_KIND}: {error}.")
        if review.api_version != _API_VERSION or review.kind != _KIND:
            found = f"{review.kind or 'nothing'} {review.api_version}"[:100]
            return self._unreadable(began, f"This webhook speaks {_KIND} {_API_VERSION}; the body is {found}.")
        if review.request is None:
            return self._unreadable(began, f"The {_KIND} has no request.")
        judgement = judge_pod(review.request.object or {}, self._rules)
        for refusal in judgement.refusals:
            self._metrics.webhook_refusals.labels(refusal.rule).inc()
        outcome = "refused" if judgement.refusals else "ours" if judgement.ours else "passed"
        self._metrics.webhook_seconds.labels(outcome).observe(time.perf_counter() - began)
        body = msgspec.json.encode(_answer(review.request.uid, judgement))
        return web.Response(body=body, content_type="application/json")

    def _unreadable(self, began: float, text: str) -> web.Response:
        self._metrics.webhook_seconds.labels("unreadable").observe(time.perf_counter() - began)
        return web.Response(status=400, text=text)


def _answer(uid: str, judgement: Judgement) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": uid, "allowed": not judgement.refusals}
    if judgement.refusals:
        response["status"] = {"code": 422, "reason": "Invalid", "message": judgement.text}
    elif judgement.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(judgement.patch)).decode()
    if judgement.warnings:
        response["warnings"] = list(judgement.warnings)
    return {"apiVersion": _API_VERSION, "kind": _KIND, "response": response}
