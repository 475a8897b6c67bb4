"""What a program runs under: no limiter, ours, or another one, given as a built library."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hami_hub.core.cards import CardUuid
from hami_hub.core.names import ENV_MEMORY_LIMIT, ENV_SLICE_DIR, ENV_VISIBLE_DEVICES
from hami_hub.core.slices import CardShare, Placement
from hami_hub.core.units import Mib, Percent
from hami_hub.slicepage import create_slice

from .mounted import MountedLimiter

RAW, OURS = "none", "ours"
_SHARED_CACHE = "CUDA_DEVICE_MEMORY_SHARED_CACHE"  # HAMi-core's usage file
_REDIRECT = "CUDA_REDIRECT"  # where HAMi-core finds itself
_OF_A_LIMITER = ("LD_PRELOAD", ENV_SLICE_DIR, ENV_MEMORY_LIMIT, f"{ENV_MEMORY_LIMIT}_0", _SHARED_CACHE, _REDIRECT)


@dataclass(frozen=True)
class Column:
    """One column of the tables.

    Attributes:
        key: "none", "ours", or the library's path as it was given.
        title: for the table's head.
        library: None without a limiter.
    """

    key: str
    title: str
    library: Path | None


@dataclass
class Shape:
    """How programs of one column start.

    Args:
        scratch: a folder of this column alone, on tmpfs.
        uuids: the cards of a slice, in NVML's order.
        base: the environment without any limiter.
        mounted: put the limiter where a container has it, rather than into LD_PRELOAD.
    """

    column: Column
    scratch: Path
    uuids: Sequence[str]
    base: dict[str, str]
    mounted: bool
    _namespace: MountedLimiter | None = field(default=None, init=False)
    _limit: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        for variable in _OF_A_LIMITER:
            self.base.pop(variable, None)
        (self.scratch / "hami").mkdir(parents=True)
        if self.mounted and self.column.library:
            hami = self.scratch / "hami" if self.column.key == OURS else None
            self._namespace = MountedLimiter(self.scratch / "mounts", library=self.column.library, hami=hami)

    def fresh_slice(self, limit: int) -> None:
        """Forget whatever was held before: a new slice of `limit` MiB a card, or another limiter's usage file."""
        self._limit = limit
        if self.column.key == OURS:
            shares = tuple(CardShare(CardUuid(uuid), Mib(limit), Percent(0)) for uuid in self.uuids)
            create_slice(self._slice, name="bench", placement=Placement(shares))
        shutil.rmtree(self._cache.parent, ignore_errors=True)
        self._cache.parent.mkdir()

    def environment(self) -> dict[str, str]:
        """Of a program in the slice."""
        if self.column.library is None:
            return self.base
        variables = dict(self.base)
        if self.column.key != OURS:
            variables |= {f"{ENV_MEMORY_LIMIT}_{i}": f"{self._limit}m" for i in range(len(self.uuids))}
            variables[_SHARED_CACHE] = str(self._cache)
        if self._namespace is None:
            variables["LD_PRELOAD"] = str(self.column.library)
            if self.column.key == OURS:
                variables[ENV_SLICE_DIR] = str(self._slice)
            else:
                variables[_REDIRECT] = str(self.column.library)
        return variables

    def command(self, command: Sequence[str | Path]) -> list[str]:
        """The command line that runs `command` in the slice."""
        return self._namespace.inside(command) if self._namespace else list(map(str, command))

    def close(self) -> None:
        """Take down what was put up."""
        if self._namespace:
            self._namespace.close()

    @property
    def _slice(self) -> Path:
        return self.scratch / "hami" / "slice"

    @property
    def _cache(self) -> Path:
        return self.scratch / "cache" / "usage"


def make_column(given: str, *, ours: Path | None) -> Column:
    """The column that `--limiter` names; other libraries are called after HAMi-core, the one that is known.

    Raises:
        ValueError: no such library.
    """
    if given == RAW:
        return Column(RAW, "no limiter", None)
    library = ours if given == OURS else Path(given)
    if library is None or not library.is_file():
        raise ValueError(f"{given} is no limiter: there is no file {library}. Use none, ours, or a path of a library.")
    return Column(given, "ours" if given == OURS else "HAMi-core", library.resolve())


def plain_environment() -> dict[str, str]:
    """This process's, with all cards in NVML's order."""
    kept = {name: value for name, value in os.environ.items() if name != ENV_VISIBLE_DEVICES}
    return {**kept, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
