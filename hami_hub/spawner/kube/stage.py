"""How far a pod has come, and whether it can still become a server: from its JSON and its events, without asking.

Decides only; the sentences are `words`', what to do about it is `spawner`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from ...core.language import say
from .words import (
    AROUND_REASONS,
    CONTAINER_WAITS,
    DEVICE_PLUGIN,
    DISRUPTIONS,
    EVENTS,
    IMAGE_IS_GONE,
    NO_PLACE,
    PASSES,
    POD_FAILS,
    TRY_AGAIN,
    Means,
    sentence,
)

Json = Mapping[str, Any]

# KubeSpawner's name for the container that is the server.
SERVER_CONTAINER = "notebook"
# So often a registry that doesn't say no is asked before it is given up.
_PULLS = 3
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a pod is.

    Attributes:
        key: of `words.SENTENCES`.
        values: what its sentence is filled with.
        over: it can't become a server any more.
        placed: it has a node.
    """

    key: str
    values: Mapping[str, str] = field(default_factory=dict)
    over: bool = False
    placed: bool = True

    @property
    def text(self) -> str:
        """The sentence."""
        return sentence(self.key, **self.values)


def stage_of(pod: Json, events: Iterable[Json] = ()) -> Stage:
    """Where `pod` is.

    Args:
        pod: as the API server has it.
        events: those about this very pod, not about an earlier one of its name; in any order.
    """
    status = pod.get("status") or {}
    ordered = sorted(events, key=_time_of)
    return (
        _removed(pod, status)
        or _failed(pod, status, ordered)
        or _unplaced(pod, status, ordered)
        or _waiting_container(pod, status, ordered)
        or _on_the_way(pod, status, ordered)
    )


def why_unplaced(text: str) -> Stage:
    """What kube-scheduler's `text` comes to: the first of its reasons that is known, else the text itself."""
    for rule in NO_PLACE:
        found = rule.pattern.search(text)
        if found is not None:
            return Stage("waits", {"why": sentence(rule.key, **found.groupdict())}, placed=False)
    return Stage("waits-unknown", {"text": _sentence(AROUND_REASONS.sub("", " ".join(text.split())))}, placed=False)


# --- what is over ---------------------------------------------------------------------------------------------------


def _removed(pod: Json, status: Json) -> Stage | None:
    if not pod.get("metadata", {}).get("deletionTimestamp"):
        return None
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            key = DISRUPTIONS.get(condition.get("reason", ""), "evicted")
            return _over(key, pod, condition.get("message", ""))
    return Stage("deleted", over=True)


def _failed(pod: Json, status: Json, events: Sequence[Json]) -> Stage | None:
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if container.get("name") == SERVER_CONTAINER and ended and status.get("phase") != "Pending":
            return _ended(ended)
    if status.get("phase") not in ("Failed", "Succeeded"):
        return None
    reason, text = status.get("reason") or "", status.get("message") or ""
    if reason.startswith("OutOf"):
        return Stage("out-of", {"node": _node(pod), "resource": reason.removeprefix("OutOf")}, over=True)
    if reason == "UnexpectedAdmissionError" and DEVICE_PLUGIN.search(text):
        return Stage("slice-refused", {"text": _sentence(_core_of(text))}, over=True)
    if reason in POD_FAILS:
        return _over(POD_FAILS[reason], pod, text)
    for container in status.get("initContainerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode") and not text:
            name, code = container.get("name"), ended["exitCode"]
            said = say("its container {name} ended with exit status {code}.", name=name, code=code)
            return Stage("failed", {"node": _node(pod), "text": said}, over=True)
    return _over("failed", pod, text or reason)


def _ended(ended: Json) -> Stage:
    if ended.get("reason") == "OOMKilled":
        return Stage("oom", over=True)
    code = ended.get("exitCode")
    last = (str(ended.get("message") or "").strip().splitlines() or [""])[-1]
    if last:
        return Stage("ended", {"status": say("exit status {code}: {said}", code=code, said=_cut(last))}, over=True)
    return Stage("ended", {"status": say("exit status {code}", code=code)}, over=True)


def _over(key: str, pod: Json, text: str) -> Stage:
    return Stage(key, {"node": _node(pod), "text": _sentence(text) or say("it gives no reason.")}, over=True)


# --- what waits for a place -----------------------------------------------------------------------------------------


def _unplaced(pod: Json, status: Json, events: Sequence[Json]) -> Stage | None:
    if (pod.get("spec") or {}).get("nodeName"):
        return None
    if any(event.get("reason") == "TriggeredScaleUp" for event in events):
        return Stage("scale-up", placed=False)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            if condition.get("reason") == "SchedulingGated":
                return Stage("gated", placed=False)
            return why_unplaced(condition.get("message") or "")
    return Stage("looking-for-place", placed=False)


# --- what is being made ---------------------------------------------------------------------------------------------


def _waiting_container(pod: Json, status: Json, events: Sequence[Json]) -> Stage | None:
    for container in _containers(status):
        waiting = (container.get("state") or {}).get("waiting")
        if not waiting:
            continue
        reason, text = waiting.get("reason") or "", waiting.get("message") or ""
        means = CONTAINER_WAITS.get(reason, Means.ON_THE_WAY)
        image = str(container.get("image") or "")
        if means is Means.BAD_NAME:
            return Stage("image-name", {"image": image}, over=True)
        if means is Means.PULL:
            return _pulling(image, text, events, never=reason == "ErrImageNeverPull")
        if means is Means.NOT_MADE:
            return _not_made(text or reason)
        if means is Means.CRASHED:
            return _ended((container.get("lastState") or {}).get("terminated") or {"exitCode": say("unknown")})
    return None


def _pulling(image: str, text: str, events: Sequence[Json], *, never: bool) -> Stage:
    failures = [event for event in events if event.get("reason") == "Failed" and "pull" in str(event.get("message"))]
    said = next((str(event["message"]) for event in reversed(failures)), text)
    gone = never or IMAGE_IS_GONE.search(f"{text} {said}")
    if gone or sum(_count(event) for event in failures) >= _PULLS:
        return Stage("image-gone", {"image": image, "text": _sentence(_core_of(said or text))}, over=True)
    return Stage("pulling", {"image": image})


def _not_made(text: str) -> Stage:
    core = _sentence(_core_of(text))
    if DEVICE_PLUGIN.search(text):
        again = TRY_AGAIN.search(text) is not None
        return Stage("slice-not-ready" if again else "slice-refused", {"text": core}, over=not again)
    if PASSES.search(text):
        return Stage("creating")
    return Stage("not-made", {"text": core}, over=True)


def _on_the_way(pod: Json, status: Json, events: Sequence[Json]) -> Stage:
    if status.get("phase") == "Running":
        return Stage("running")
    for event in reversed(events):
        key = EVENTS.get(event.get("reason", ""))
        if key in ("volume", "network"):
            return Stage(key, {"text": _sentence(str(event.get("message") or ""))})
        if key in ("pulling", "pulled"):
            return Stage(key, {"image": _image(pod, str(event.get("message") or ""))})
        if event.get("reason") in ("Created", "Started"):
            break
    inits = status.get("initContainerStatuses") or ()
    if any(not (each.get("state") or {}).get("terminated") and not _started(each) for each in inits):
        return Stage("init")
    if events and events[-1].get("reason") == "Created":
        return Stage("creating")
    return Stage("placed-plain", {"node": _node(pod)})


# --- small things ---------------------------------------------------------------------------------------------------


def _containers(status: Json) -> Iterator[Json]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _started(container: Json) -> bool:
    return bool(container.get("started"))


def _node(pod: Json) -> str:
    return (pod.get("spec") or {}).get("nodeName") or say("its node")


def _image(pod: Json, message: str) -> str:
    quoted = re.search(r'image "([^"]+)"', message)
    if quoted:
        return quoted[1]
    return str(next((each.get("image") for each in (pod.get("spec") or {}).get("containers") or ()), ""))


def _count(event: Json) -> int:
    series = event.get("series") or {}
    return max(1, int(event.get("count") or 0), int(series.get("count") or 0))


def _time_of(event: Json) -> tuple[datetime, str]:
    """When it was last seen; an event may carry its time in any of four fields, or in none."""
    series = event.get("series") or {}
    metadata = event.get("metadata") or {}
    stamps = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    stamp = next((each for each in stamps if each), metadata.get("creationTimestamp"))
    return parse_time(stamp), str(metadata.get("name"))


def parse_time(stamp: object) -> datetime:
    """Kubernetes' way of writing a time; what can't be read is long ago."""
    try:
        whole, _, rest = str(stamp).rstrip("Z").partition(".")
        micros = int((rest + "000000")[:6])
        return datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc) + timedelta(
            microseconds=micros
        )
    except ValueError:
        return datetime.min.replace(tzinfo=timezone.utc)


def _core_of(text: str) -> str:
    """The part of an error that was said last: each layer of Kubernetes puts its own words before it."""
    _, found, said = text.rpartition("desc = ")
    return said if found else text


def _sentence(text: str) -> str:
    """`text` as the end of a sentence: one line, not too long, with a full stop."""
    plain = _cut(" ".join(text.split()).rstrip(" ,;:"))
    if not plain:
        return ""
    return plain if plain.endswith((".", "!", "?", "…")) else plain + "."


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
