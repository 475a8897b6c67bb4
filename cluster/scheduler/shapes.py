"""What is read of Kubernetes objects here.  A field that isn't named never becomes a Python object.

The readers are `hami_hub.core.pods` and `hami_hub.core.codec`, which take plain dicts; `msgspec` makes these, trimmed.
"""

from __future__ import annotations

from typing import TypedDict


class Metadata(TypedDict, total=False):
    """Of any object."""

    namespace: str
    name: str
    uid: str
    resourceVersion: str
    creationTimestamp: str
    deletionTimestamp: str
    annotations: dict[str, str]
    labels: dict[str, str]


class Resources(TypedDict, total=False):
    """Of a container."""

    limits: dict[str, str | int]
    requests: dict[str, str | int]


class Variable(TypedDict, total=False):
    """One of a container's environment."""

    name: str
    value: str


class Container(TypedDict, total=False):
    """Of a pod, init containers too."""

    name: str
    resources: Resources
    env: list[Variable]
    restartPolicy: str


class PodSpec(TypedDict, total=False):
    """See `hami_hub.core.pods.view_pod` for what is made of it."""

    nodeName: str
    schedulerName: str
    priority: int
    containers: list[Container]
    initContainers: list[Container]


class PodStatus(TypedDict, total=False):
    """Of a pod."""

    phase: str


class Pod(TypedDict, total=False):
    """A pod, as watched and as kube-scheduler sends it."""

    metadata: Metadata
    spec: PodSpec
    status: PodStatus


class Condition(TypedDict, total=False):
    """Of a node."""

    type: str
    status: str


class NodeSpec(TypedDict, total=False):
    """Of a node."""

    unschedulable: bool


class NodeStatus(TypedDict, total=False):
    """Of a node."""

    allocatable: dict[str, str]
    conditions: list[Condition]


class Node(TypedDict, total=False):
    """A node, as watched and as a simulation sends it."""

    metadata: Metadata
    spec: NodeSpec
    status: NodeStatus
