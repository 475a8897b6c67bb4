"""The spawner for Kubernetes, `hami-kube`: `spawner` is its face, `cluster` what it asks the GPU scheduler.

Needs jupyterhub-kubespawner: `pip install hami-hub[kube]`.
"""

from __future__ import annotations

try:
    import kubespawner as _  # noqa: F401
except ImportError:
    raise ImportError(
        "GpuKubeSpawner needs jupyterhub-kubespawner. Install it with `pip install hami-hub[kube]`."
    ) from None

from .cluster import GpuCluster
from .spawner import GpuKubeSpawner

__all__ = ["GpuCluster", "GpuKubeSpawner"]
