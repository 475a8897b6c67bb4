"""A real Kubernetes for the tests: etcd, API server, scheduler, controllers, kubelets and containerd, in namespaces.

`Cluster` is the cluster; `images` makes what its pods run; `why_not()` says why there can't be one here.  The same by
hand: `python -m tests.cluster.rig up`.  Fixtures for pytest are in `tests/cluster/conftest.py`.
"""

from __future__ import annotations

from tests.cluster.rig.cluster import Cluster, ClusterError
from tests.cluster.rig.needs import why_not
from tests.cluster.rig.node import Node
from tests.cluster.rig.waiting import Unfulfilled

__all__ = ["Cluster", "ClusterError", "Node", "Unfulfilled", "why_not"]
