"""What the API server's refusal of a pod means for the person who wanted a server: from its answer, without asking."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from ...core.language import say
from ..errors import GpuSpawnError
from .words import reason_of, sentence

_QUOTA = re.compile(r"exceeded quota: (?P<text>.*)", re.DOTALL)
_LIMIT_RANGE = re.compile(r"is forbidden: (?P<text>(?:\[?(?:maximum|minimum)) .*)", re.DOTALL)
_WEBHOOK_DENIES = re.compile(r"admission webhook \"[^\"]*\" denied the request:? ?(?P<text>.*)", re.DOTALL)
_POLICY_DENIES = re.compile(
    r"ValidatingAdmissionPolicy '[^']*' with binding '[^']*' denied request: (?P<text>.*)", re.DOTALL
)
_WEBHOOK_AWAY = re.compile(r"failed calling webhook")
_RBAC = re.compile(r"cannot (?:create|get|list|watch|delete|patch) resource|forbidden: User \"")
_NO_NAMESPACE = re.compile(r"namespaces \"(?P<namespace>[^\"]+)\" not found")
_AWAY = (408, 429, 500, 502, 503, 504)
_LONGEST = 800


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is no success: HTTP status, and the `message` of Kubernetes' Status object."""

    status: int
    message: str


def answer(status: int | None, body: str | bytes | None, reason: str | None = "") -> Answer:
    """The answer in a client's exception; a body that is no Status object is taken as it is."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    try:
        message = json.loads(text)["message"]
    except (ValueError, KeyError, TypeError):
        message = text
    return Answer(status or 0, str(message or reason or ""))


def refusal(given: Answer) -> GpuSpawnError:
    """The refusal in words."""
    key, text = _key(given)
    plain = " ".join(text.split()).rstrip(".")[:_LONGEST]
    said = plain if key == "quota" else f"{plain}." if plain else say("It gives no reason.")
    return GpuSpawnError(sentence(key, text=said, namespace=plain), reason=reason_of(key))


def _key(given: Answer) -> tuple[str, str]:
    for pattern, key in ((_QUOTA, "quota"), (_WEBHOOK_DENIES, "denied"), (_POLICY_DENIES, "denied")):
        found = pattern.search(given.message)
        if found:
            return key, found["text"]
    if _WEBHOOK_AWAY.search(given.message):
        return "scheduler-away", ""
    if given.status in _AWAY:
        return "cluster-away", ""
    missing = _NO_NAMESPACE.search(given.message)
    if missing:
        return "namespace", missing["namespace"]
    if given.status == 401 or _RBAC.search(given.message):
        return "forbidden", given.message
    if given.status == 403:
        limits = _LIMIT_RANGE.search(given.message)
        return "denied", limits["text"] if limits else _after_forbidden(given.message)
    return "invalid", given.message


def _after_forbidden(message: str) -> str:
    _, found, rest = message.partition("is forbidden: ")
    return rest if found else message
