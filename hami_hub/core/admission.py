"""Whether a new pod is let in, and what is written into it.  Decides only; the scheduler's webhook carries it.

Only containers that ask for a slice are judged, so that a privileged init container beside them is no obstacle.  A
refusal says the value, the rule and what would work.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from .names import SCHEDULER_ANNOTATIONS
from .pods import PodRules, all_containers, annotations_of, limits_of, mapping, name_of, objects, request_of, text
from .quantity import whole_quantity
from .units import AmountError

_MIRROR = "kubernetes.io/config.mirror"
_SEES_EVERYTHING = {"SYS_ADMIN", "ALL"}
# What the limiter is told and how it gets in; a volume there could hide it.
_OURS = ("/run/hami", "/var/run/hami", "/usr/local/vgpu", "/etc/ld.so.preload")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod is not let in.  `rule` is a short fixed word, used as a metric's label; `text` is for people."""

    rule: str
    text: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What becomes of a new pod.

    Attributes:
        ours: a container asks for a slice.
        refusals: why it isn't let in; none: it is.
        patch: operations of a JSON patch (RFC 6902).
        warnings: shown to whoever created the pod, which is let in.
    """

    ours: bool = False
    refusals: tuple[Refusal, ...] = ()
    patch: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All refusals, as one text."""
        return " ".join(refusal.text for refusal in self.refusals)


def judge_pod(pod: Mapping[str, Any], rules: PodRules) -> Judgement:
    """What becomes of `pod`, as it is about to be created."""
    spec = mapping(pod.get("spec"))
    annotations = annotations_of(pod)
    refusals: list[Refusal] = []
    patch: list[Mapping[str, Any]] = []
    ours = False
    positions = {"initContainers": 0, "containers": 0}
    for index, (container, stays) in enumerate(all_containers(spec)):
        group = "initContainers" if index < len(objects(spec.get("initContainers"))) else "containers"
        path = f"/spec/{group}/{positions[group]}"
        positions[group] += 1
        if not _asks(container, rules):
            continue
        ours = True
        refusals += [*_amount_refusals(container, annotations, rules), *_container_refusals(container, spec, stays)]
        if not refusals:
            patch += _container_patch(path, container, spec, rules)
    if not ours:
        return Judgement()
    mirror = _MIRROR in annotations
    refusals += _pod_refusals(spec, annotations, mirror)
    if refusals:
        return Judgement(ours=True, refusals=tuple(refusals))
    scheduler = text(spec.get("schedulerName")) or "default-scheduler"
    if mirror:
        return Judgement(ours=True)
    if scheduler == rules.scheduler_name:
        return Judgement(ours=True, patch=tuple(patch))
    if not any(fnmatchcase(scheduler, pattern) for pattern in rules.take_over):
        return Judgement(ours=True, warnings=(_not_taken_over(scheduler, rules),))
    return Judgement(ours=True, patch=(*patch, _add("/spec/schedulerName", rules.scheduler_name)))


def _asks(container: Mapping[str, Any], rules: PodRules) -> bool:
    """Whether `container` asks for a slice, be it rightly or wrongly."""
    names = rules.names
    limits = limits_of(container)
    if names.count in limits:
        return not _is_zero(limits[names.count])
    return bool(rules.defaults.count) and not {names.memory, names.memory_percentage, names.cores}.isdisjoint(limits)


def _amount_refusals(
    container: Mapping[str, Any], annotations: Mapping[str, str], rules: PodRules
) -> Iterator[Refusal]:
    names = rules.names
    resources = mapping(container.get("resources"))
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    for key in (names.count, names.memory, names.memory_percentage, names.cores, names.priority):
        if key in limits and key in requests and not _equal(limits[key], requests[key]):
            yield Refusal(
                "requests-differ",
                _of(
                    container,
                    f"{key} has the request {_short(requests[key])} and the limit {_short(limits[key])}. "
                    "Both must be the same; name the limit alone.",
                ),
            )
    merged = limits_of(container)
    if _is_zero(merged.get(names.memory_percentage)):
        yield Refusal(
            "amount",
            _of(container, f"{names.memory_percentage} is 0. Write 1 to 100, or leave it out for the whole card."),
        )
    if _is_zero(merged.get(names.memory)):
        yield Refusal(
            "amount", _of(container, f"{names.memory} is 0. Write the MiB, or leave it out for the whole card.")
        )
    if names.memory in merged and names.memory_percentage in merged:
        yield Refusal(
            "amount",
            _of(
                container,
                f"{names.memory} is {_short(merged[names.memory])} and {names.memory_percentage} is "
                f"{_short(merged[names.memory_percentage])}. Name one of the two.",
            ),
        )
    try:
        request_of(container, annotations, rules)
    except AmountError as error:
        yield Refusal("amount", _of(container, str(error)))


def _container_refusals(container: Mapping[str, Any], spec: Mapping[str, Any], stays: bool) -> Iterator[Refusal]:
    if not stays:
        yield Refusal(
            "init-container",
            _of(
                container,
                "it is an init container that asks for a slice. Move the amounts to a container, or make it a sidecar "
                "with restartPolicy Always.",
            ),
        )
    security = mapping(container.get("securityContext"))
    if security.get("privileged") is True:
        yield Refusal(
            "privileged", _of(container, "privileged is true, with which no limit holds. Leave privileged out.")
        )
    added = mapping(security.get("capabilities")).get("add")
    for capability in added if isinstance(added, list) else ():
        if text(capability).upper().removeprefix("CAP_") in _SEES_EVERYTHING:
            yield Refusal(
                "capability",
                _of(container, f"it adds the capability {_short(capability)}, with which no limit holds. Drop it."),
            )
    if _seccomp(container, spec) == "Unconfined":
        yield Refusal(
            "seccomp",
            _of(
                container,
                "its seccomp profile is Unconfined, with which it could hide the limiter. Use RuntimeDefault, or leave "
                "seccompProfile out.",
            ),
        )
    mounts = [text(mount.get("mountPath")) for mount in objects(container.get("volumeMounts"))]
    devices = [text(device.get("devicePath")) for device in objects(container.get("volumeDevices"))]
    for path in (*mounts, *devices):
        if any(_is_under(path, place) for place in _OURS):
            yield Refusal(
                "mount",
                _of(container, f"it mounts a volume at {_short(path)}, where the limiter is. Mount it elsewhere."),
            )


def _pod_refusals(spec: Mapping[str, Any], annotations: Mapping[str, Any], mirror: bool) -> Iterator[Refusal]:
    node = text(spec.get("nodeName"))
    if node and not mirror:
        yield Refusal(
            "node-name",
            f"spec.nodeName is {_short(node)}, which passes the scheduler by. Leave it out and use a nodeSelector with "
            "kubernetes.io/hostname.",
        )
    if spec.get("hostPID") is True:
        yield Refusal(
            "host-pid",
            "hostPID is true, with which a slice could reach the processes of others. Leave hostPID out, or ask for "
            "no slice.",
        )
    forged = sorted(SCHEDULER_ANNOTATIONS.intersection(annotations))
    if forged:
        yield Refusal(
            "annotations",
            f"The pod brings the annotation {', '.join(forged)}, which only the scheduler writes. Remove it.",
        )


def _container_patch(
    path: str, container: Mapping[str, Any], spec: Mapping[str, Any], rules: PodRules
) -> Iterator[Mapping[str, Any]]:
    names = rules.names
    resources = mapping(container.get("resources"))
    merged = limits_of(container)
    ours = {
        key: merged[key]
        for key in (names.count, names.memory, names.memory_percentage, names.cores, names.priority)
        if key in merged
    }
    ours.setdefault(names.count, str(rules.defaults.count))
    limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
    if any(key not in limits for key in ours):
        filled = {**resources, "limits": {**limits, **ours}, "requests": {**requests, **ours}}
        yield _add(f"{path}/resources", filled)
    if not _seccomp(container, spec):
        profile = {"type": "RuntimeDefault"}
        if mapping(container.get("securityContext")):
            yield _add(f"{path}/securityContext/seccompProfile", profile)
        else:
            yield _add(f"{path}/securityContext", {"seccompProfile": profile})


def _seccomp(container: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    """The type of the profile in force for `container`; empty: none is named."""
    for holder in (container, spec):
        profile = mapping(mapping(holder.get("securityContext")).get("seccompProfile"))
        if text(profile.get("type")):
            return text(profile["type"])
    return ""


def _not_taken_over(scheduler: str, rules: PodRules) -> str:
    return (
        f"schedulerName is {_short(scheduler)}, so this pod gets no slice and will not start on a card. "
        f"Leave schedulerName out, or write {rules.scheduler_name}."
    )


def _add(path: str, value: object) -> Mapping[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _is_under(path: str, place: str) -> bool:
    clean = posixpath.normpath(f"/{path.lstrip('/')}") if path else ""
    return clean == place or clean.startswith(f"{place}/")


def _is_zero(quantity: object) -> bool:
    try:
        return quantity is not None and whole_quantity(quantity) == 0
    except AmountError:
        return False


def _equal(one: object, other: object) -> bool:
    try:
        return whole_quantity(one) == whole_quantity(other)
    except AmountError:
        return one == other


def _of(container: Mapping[str, Any], sentence: str) -> str:
    return f"Container {_short(name_of(container))}: {sentence}"


def _short(value: object) -> str:
    shown = str(value)
    return shown if len(shown) <= 64 else f"{shown[:64]}…"
