"""The one file both daemons read: `config.yaml` of the chart's ConfigMap.  What a value means is said in the chart.

Unknown keys are refused, so that a misspelt value is an error at start and never one that is silently not in force.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from hami_hub.core.cards import DEFAULT_SPLIT_COUNT
from hami_hub.core.names import NODE_LABEL, NODE_LABEL_VALUE

Count = Annotated[int, msgspec.Meta(ge=0)]
PercentValue = Annotated[int, msgspec.Meta(ge=0, le=100)]


class SettingsError(ValueError):
    """The file can't be used.  Says where it is wrong and what is expected."""


class Base(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Keys are written in camelCase, as everywhere in Kubernetes."""


class Resources(Base, frozen=True):
    """Names of the extended resources: Helm's resourceName, resourceMem and so on."""

    count: str = "nvidia.com/gpu"
    memory: str = "nvidia.com/gpumem"
    memory_percentage: str = "nvidia.com/gpumem-percentage"
    cores: str = "nvidia.com/gpucores"
    priority: str = "nvidia.com/priority"


class Scheduler(Base, frozen=True):
    """What `cluster.scheduler` goes by.

    Attributes:
        name: schedulerName of the pods that hold slices.
        take_over: schedulerNames whose pods become ours when they ask for a slice; `*` stands for anything.
        default_mem: MiB for a pod that names no amount; 0: the whole card.
        default_cores: percent for a pod that names none.
        default_gpu_num: cards for a pod that names an amount but no cards; 0: it isn't ours.
        node_policy: which node of those that fit: fgd (least fragmentation), binpack or spread.
        gpu_policy: which card of the node.
        core_policy: GPU_CORE_UTILIZATION_POLICY of containers that don't set it.
        node_selector: label that a node's cards count with; "": any node with a register annotation.
        reservation_seconds: how long a reserved slice waits for its binding.
        hub_namespaces: where hubs run; each gets the ConfigMap that says where the inventory is.
    """

    name: str = "hami-scheduler"
    take_over: tuple[str, ...] = ("default-scheduler", "*user-scheduler")
    default_mem: Count = 0
    default_cores: PercentValue = 0
    default_gpu_num: Count = 1
    node_policy: Literal["fgd", "binpack", "spread"] = "fgd"
    gpu_policy: Literal["fgd", "binpack", "spread"] = "fgd"
    core_policy: Literal["default", "force", "disable"] = "default"
    node_selector: str = ""
    reservation_seconds: Annotated[int, msgspec.Meta(ge=10)] = 60
    hub_namespaces: tuple[str, ...] = ()


class SimulatedCards(Base, frozen=True):
    """Cards for nodes that have none, to try the chart with.

    Attributes:
        count: how many; 0: the node's own cards.
        profile: the model: T4, A10, A100-40GB or H200.
        mig: how each is cut by MIG, "1g,1g,3g"; "": not at all.
    """

    count: Count = 0
    profile: str = "T4"
    mig: str = ""


class DevicePlugin(Base, frozen=True):
    """What `cluster.deviceplugin` goes by.

    Attributes:
        device_split_count: how many slices a card is cut into at most.
        device_memory_scaling: a card counts as so many times its memory; "1.5" is text, so that it stays exact.
        mig_strategy: none: cards in MIG mode are not offered; mixed: each MIG device under its own name.
        disable_core_limit: no slice is held to its cores.
        node_label: only nodes with it run the plugin; here for messages.
        ignored_xids: NVIDIA's numbers of errors that a program makes, not its card.
        quarantine_seconds: how long a card takes no new slice after an error, at least; doubled by each that follows.
        unaccounted_memory: MiB of a card that no slice holds and that are told as an event on the node; 0: never.
        escapes: what to do about processes that got around the limiter: nothing, an event on the node, or end them too.
        simulated_cards: see there.
    """

    device_split_count: Annotated[int, msgspec.Meta(ge=1, le=1000)] = DEFAULT_SPLIT_COUNT
    device_memory_scaling: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,2}(\.[0-9]{1,3})?$")] = "1"
    mig_strategy: Literal["none", "mixed"] = "none"
    disable_core_limit: bool = False
    node_label: str = f"{NODE_LABEL}={NODE_LABEL_VALUE}"
    ignored_xids: tuple[Count, ...] = (13, 31, 43, 45, 68, 109)
    quarantine_seconds: Annotated[int, msgspec.Meta(ge=1)] = 60
    unaccounted_memory: Count = 512
    escapes: Literal["ignore", "report", "end"] = "report"
    simulated_cards: SimulatedCards = SimulatedCards()


class Settings(Base, frozen=True):
    """The whole file."""

    resources: Resources = Resources()
    scheduler: Scheduler = Scheduler()
    device_plugin: DevicePlugin = DevicePlugin()


def parse_settings(text: str) -> Settings:
    """The settings in `text`, YAML.

    Raises:
        SettingsError: not YAML, an unknown key, or a value out of range.
    """
    try:
        return msgspec.yaml.decode(text.encode(), type=Settings) if text.strip() else Settings()
    except msgspec.MsgspecError as error:
        raise SettingsError(f"The settings can't be used: {error}.") from None


def read_settings(path: Path) -> Settings:
    """The settings in the file `path`.

    Raises:
        SettingsError: see `parse_settings`, or the file can't be read.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise SettingsError(f"The settings in {path} can't be read: {error.strerror}.") from None
    try:
        return parse_settings(text)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from None
