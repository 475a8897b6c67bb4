"""What `hami-hub smi` shows, as plain data.  `read` fills it in; `table` and `query` print it.

None stands for what the card or the driver doesn't tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ...core.units import Mib


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuView:
    """One card as the asking process has it: inside a slice, memory is the slice's.

    Attributes:
        index: NVML's index; inside a slice, the card's place in it.
        temperature: °C.
        power, power_limit: watts.
        fan, gpu_load, memory_load: percent.
        clock_sm, clock_memory: MHz.
        ecc_errors: uncorrected ones since the driver was loaded.
        cores: percent of the card's time that the slice has a right to.
        card_seconds: of the card's time that the slice has used; of them `borrowed_seconds` beyond its share.
        lent_seconds: of the slice's share that neighbours used.
        throttled_seconds: that the slice's launches waited.
    """

    index: int
    uuid: str
    name: str
    bus_id: str = ""
    memory_total: Mib | None = None
    memory_used: Mib | None = None
    memory_reserved: Mib | None = None
    gpu_load: int | None = None
    memory_load: int | None = None
    temperature: int | None = None
    power: float | None = None
    power_limit: float | None = None
    fan: int | None = None
    performance: int | None = None
    persistence: bool | None = None
    display: bool | None = None
    ecc_errors: int | None = None
    compute_mode: str | None = None
    mig: bool | None = None
    clock_sm: int | None = None
    clock_memory: int | None = None
    capability: str | None = None
    serial: str | None = None
    cores: int | None = None
    card_seconds: float | None = None
    borrowed_seconds: float | None = None
    lent_seconds: float | None = None
    throttled_seconds: float | None = None

    @property
    def memory_free(self) -> Mib | None:
        """What neither is in use nor kept by the driver."""
        if self.memory_total is None or self.memory_used is None:
            return None
        return Mib(max(0, self.memory_total - self.memory_used - (self.memory_reserved or 0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """A process on a card.  `kind` is C, G or C+G; `used` is MiB."""

    gpu: GpuView
    pid: int
    name: str
    kind: str = "C"
    used: Mib | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All of it at one moment."""

    version: str
    driver: str
    cuda: str
    time: datetime
    gpus: tuple[GpuView, ...]
    processes: tuple[ProcessView, ...]
