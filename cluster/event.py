"""The body of an Event, as the API server takes it and `kubectl describe` shows it."""

from __future__ import annotations

import secrets
import socket
from dataclasses import dataclass
from datetime import datetime, timezone

_LONGEST = 1024  # bytes; the API server refuses more


@dataclass(frozen=True, slots=True)
class About:
    """What an event is about.

    Attributes:
        kind: Pod or Node.
        namespace: of a node "": its events are in `default`.
    """

    kind: str
    name: str
    uid: str
    namespace: str = ""


def events_path(about: About) -> str:
    """Where events about it are created."""
    return f"/api/v1/namespaces/{about.namespace or 'default'}/events"


def event_body(
    about: About, reason: str, text: str, *, component: str, warning: bool, host: str = ""
) -> dict[str, object]:
    """An event that happens now.

    Args:
        about: pod or node.
        reason: one word, CamelCase.
        text: plain sentences; cut if too long.
        component: who tells it.
        warning: its type is Warning, else Normal.
        host: node that the component runs on; "": it belongs to none.
    """
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    named = {"namespace": about.namespace} if about.namespace else {}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "namespace": about.namespace or "default",
            "name": f"{about.name[:200]}.{secrets.token_hex(8)}",
        },
        "involvedObject": {"apiVersion": "v1", "kind": about.kind, "name": about.name, "uid": about.uid, **named},
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": _shortened(text),
        "source": {"component": component, **({"host": host} if host else {})},
        "reportingComponent": component,
        "reportingInstance": host or socket.gethostname(),
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def _shortened(text: str) -> str:
    """`text`, cut where the API server would refuse it."""
    raw = text.encode()
    return text if len(raw) <= _LONGEST else raw[: _LONGEST - 3].decode(errors="ignore") + "…"
