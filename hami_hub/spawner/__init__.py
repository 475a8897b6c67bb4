"""JupyterHub spawners that start each server on a slice of a card.

Use one by its entry point, and say with `c.GpuSlices` what people can pick from::

    c.JupyterHub.spawner_class = "hami-local"     # UNIX users of this machine
    c.JupyterHub.spawner_class = "hami-systemd"   # the same, and no tenant can get around the limits
    c.JupyterHub.spawner_class = "hami-docker"    # containers of this machine's Docker daemon
    c.JupyterHub.spawner_class = "hami-simple"    # one user for all: demos and tests
    c.JupyterHub.spawner_class = "hami-kube"      # pods of a Kubernetes cluster

`MachineSlicesMixin` makes such a spawner of another one that starts servers on the hub's own machine.  What a slice is
and who gets one is decided in `hami_hub.core`; the page that a limiter reads is `hami_hub.slicepage`.
"""

from __future__ import annotations

from .config import GpuSlices
from .errors import GpuSpawnError, Reason
from .gpu_slices import GpuSlicesMixin
from .machine import MachineSlicesMixin

__all__ = ["GpuSlices", "GpuSlicesMixin", "GpuSpawnError", "MachineSlicesMixin", "Reason"]
