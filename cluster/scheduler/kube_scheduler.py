"""kube-scheduler's own configuration: which extender it asks, and that it does so at once.

The chart holds the same text as a template; a test holds the two together.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cluster.settings import Settings

FILTER_PORT = 9398


def kube_scheduler_configuration(
    settings: Settings,
    *,
    namespace: str,
    lease: str = "hami-scheduler",
    extender: str = f"http://127.0.0.1:{FILTER_PORT}",
    kubeconfig: Path | None = None,
) -> dict[str, Any]:
    """A KubeSchedulerConfiguration.

    Args:
        settings: for the scheduler's name and the resources'.
        namespace: of the lease.
        lease: by which the replicas agree who schedules.
        extender: URL of the scheduler beside it.
        kubeconfig: how it reaches the API server; None: as a pod does.
    """
    resources = settings.resources
    names = (resources.count, resources.memory, resources.memory_percentage, resources.cores, resources.priority)
    connection: dict[str, Any] = {"qps": 1000, "burst": 2000}
    if kubeconfig is not None:
        connection["kubeconfig"] = str(kubeconfig)
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": connection,
        "leaderElection": {
            "leaderElect": True,
            "resourceLock": "leases",
            "resourceName": lease,
            "resourceNamespace": namespace,
            "leaseDuration": "15s",
            "renewDeadline": "10s",
            "retryPeriod": "2s",
        },
        # The extender must be asked about every node: of a sample it would answer that there is no room.
        "percentageOfNodesToScore": 100,
        # Who was refused sleeps no longer than this before a freed slice can wake it.
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "profiles": [{"schedulerName": settings.scheduler.name}],
        "extenders": [
            {
                "urlPrefix": extender,
                "filterVerb": "filter",
                "bindVerb": "bind",
                "nodeCacheCapable": True,
                "weight": 1,
                "httpTimeout": "10s",
                "enableHTTPS": False,
                "managedResources": [{"name": name, "ignoredByScheduler": True} for name in names],
            }
        ],
    }
