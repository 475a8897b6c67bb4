"""What a person wants to see when something on the cluster went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cluster.rig.cluster import Cluster

QUESTIONS = (
    ("get", "nodes", "-o", "wide"),
    ("get", "pods", "--all-namespaces", "-o", "wide"),
    ("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"),
)
LINES = 15  # of each log


def describe(cluster: Cluster) -> str:
    """Nodes, pods, events, the pods in detail, and the end of each component's log."""
    parts = []
    if cluster.running and cluster.apiserver.process is not None and cluster.kubeconfig.exists():
        for question in QUESTIONS:
            parts.append(f"--- kubectl {' '.join(question)}\n{_ask(cluster, *question)}")
        pods = _ask(cluster, "describe", "pods", "--all-namespaces")
        parts.append(f"--- the end of kubectl describe pods\n{pods[-6000:]}")
    for component in cluster.components.values():
        parts.append(f"--- {component!r}, the end of its log\n{component.tail(LINES)}")
    return "\n".join(parts)


def _ask(cluster: Cluster, *question: str) -> str:
    result = cluster.kubectl_run("--request-timeout=10s", *question)
    return result.stdout or result.stderr
