"""The names that HAMi uses on Kubernetes.  Manifests written for it run unmodified, so none of them may change."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

NODE_REGISTER = "hami.io/node-nvidia-register"
DEVICES_ALLOCATED = "hami.io/vgpu-devices-allocated"
DEVICES_TO_ALLOCATE = "hami.io/vgpu-devices-to-allocate"
USE_TYPE = "nvidia.com/use-gputype"
NO_USE_TYPE = "nvidia.com/nouse-gputype"
USE_UUID = "nvidia.com/use-gpuuuid"
NO_USE_UUID = "nvidia.com/nouse-gpuuuid"
DEVICE_CORDON = "hami.io/device-cordon"
VGPU_NODE = "hami.io/vgpu-node"
VGPU_TIME = "hami.io/vgpu-time"
# Ours: who pays for a hub's server.
QUOTA_GROUP_LABEL = "hami.io/quota-group"
# Ours, and the one that counts: what each container holds, by its name.
SLICES = "hami.io/slices"
# What the scheduler writes with its binding; a pod that brings one along is refused.
SCHEDULER_ANNOTATIONS = frozenset(
    {
        VGPU_NODE,
        VGPU_TIME,
        SLICES,
        DEVICES_ALLOCATED,
        DEVICES_TO_ALLOCATE,
        "hami.io/bind-phase",
        "hami.io/bind-time",
        "hami.io/vgpu-mig-allocations",
    }
)
NODE_POLICY = "hami.io/node-scheduler-policy"
GPU_POLICY = "hami.io/gpu-scheduler-policy"
NODE_LABEL = "gpu"
NODE_LABEL_VALUE = "on"

ENV_MEMORY_LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
ENV_SM_LIMIT = "CUDA_DEVICE_SM_LIMIT"
ENV_TASK_PRIORITY = "CUDA_TASK_PRIORITY"
ENV_CORE_POLICY = "GPU_CORE_UTILIZATION_POLICY"
ENV_OOM_KILLER = "ACTIVE_OOM_KILLER"
ENV_SLICE_DIR = "HAMI_SLICE_DIR"
ENV_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
ENV_NVIDIA_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"


_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def label_value(text: str) -> str:
    """`text` as the value of a label: itself if it can be one, else what is left of it and a hash, so that no two
    texts become one.
    """
    if not text or _LABEL.fullmatch(text):
        return text
    left = re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:50].strip("-")
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:10]
    return f"{left}-{digest}" if left else digest


@dataclass(frozen=True, slots=True)
class ResourceNames:
    """Extended resources; each may be renamed by the chart's value of the same name."""

    count: str = "nvidia.com/gpu"
    memory: str = "nvidia.com/gpumem"
    memory_percentage: str = "nvidia.com/gpumem-percentage"
    cores: str = "nvidia.com/gpucores"
    priority: str = "nvidia.com/priority"
