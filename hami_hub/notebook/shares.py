"""Two slices on one card, side by side: what notebook 04 shows.

    with Sharing({"alice": 25, "bob": 75}) as sharing:
        sharing.start("alice")
        sharing.watch(2)        # draws while it waits

Makes the slices itself, so it is for people who run the machine; in a slice it refuses.  What a slice used comes from
its own usage page.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from .. import native
from ..cards import nvml
from ..core.cards import CardUuid
from ..core.names import ENV_SLICE_DIR, ENV_VISIBLE_DEVICES
from ..core.slices import CardShare, Placement
from ..core.units import Mib, Percent
from ..slicepage import create_slice, find_slice, read_slice
from .errors import NoGpuError

_VRAM = Mib(1000)
_EVERY_SECONDS = 0.1
_SMOOTH = 5  # samples
_COLOURS = ("#1b6ac9", "#e07a1f", "#3a8f5c", "#8a4fbf")


class Sharing:
    """Slices of the machine's first card, by name and cores.

    Raises:
        NoGpuError: this is inside a slice, or there is no card.
    """

    def __init__(self, cores: Mapping[str, int]) -> None:
        if find_slice() is not None:
            raise NoGpuError("This is inside a slice, where no others can be made. Run it on the machine itself.")
        self._cores = dict(cores)
        self._folder = Path(tempfile.mkdtemp(prefix="hami-shares-", dir="/dev/shm"))
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._began = time.monotonic()
        self._times: list[float] = []
        self._used: dict[str, list[float]] = {name: [] for name in cores}
        uuid = _first_card()
        self._environments = {name: self._slice(name, uuid) for name in cores}

    def start(self, name: str) -> None:
        """Let the slice's program keep the card busy.

        Raises:
            NoGpuError: it could not be started.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "hami_hub.notebook.spin"],
            env=self._environments[name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running[name] = process
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise NoGpuError(process.communicate()[1].strip() or "The card can't be used.")

    def stop(self, name: str) -> None:
        """End it."""
        process = self._running.pop(name)
        process.kill()
        process.communicate()

    def watch(self, seconds: float, *, draw: bool = True) -> None:
        """Look at the slices for so long, and draw what they got of the card meanwhile."""
        picture = _Picture(self._cores) if draw else None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._times.append(time.monotonic() - self._began)
            for name, used in self._used.items():
                used.append(read_slice(self._folder / "slices" / name).cards[0].used_seconds)
            if picture:
                picture.show(self._times, {name: self._curve(used) for name, used in self._used.items()})
            time.sleep(_EVERY_SECONDS)
        if picture:
            picture.close()

    def percent(self, name: str, seconds: float) -> float:
        """Of the card, that the slice had in the last `seconds` that were watched."""
        first = next(i for i, t in enumerate(self._times) if t >= self._times[-1] - seconds)
        used = self._used[name]
        return 100 * (used[-1] - used[first]) / (self._times[-1] - self._times[first])

    def close(self) -> None:
        """End all programs and remove the slices."""
        for name in list(self._running):
            self.stop(name)
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Sharing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _slice(self, name: str, uuid: CardUuid) -> dict[str, str]:
        placement = Placement((CardShare(uuid, _VRAM, Percent(self._cores[name])),))
        directory = self._folder / "slices" / name
        create_slice(directory, name=name, placement=placement, ring=self._folder / "cards")
        environment = {**os.environ, ENV_SLICE_DIR: str(directory), ENV_VISIBLE_DEVICES: uuid}
        environment["LD_PRELOAD"] = str(native.limiter_path())
        if native.is_simulated():
            found = environment.get(native.ENV_SEARCH, "").split(":")
            environment[native.ENV_SEARCH] = native.put_first(str(native.sim_folder()), found)
        return environment

    def _curve(self, used: list[float]) -> list[float]:
        got = []
        for i in range(len(used)):
            first = max(0, i - _SMOOTH)
            span = self._times[i] - self._times[first]
            got.append(100 * (used[i] - used[first]) / span if span else 0.0)
        return got


class _Picture:
    """A plot that is drawn again and again in the same place."""

    def __init__(self, cores: Mapping[str, int]) -> None:
        import matplotlib.pyplot as plt
        from IPython.display import display

        self._plt, self._cores = plt, cores
        self._figure, self._axes = plt.subplots(figsize=(9, 3.5))
        self._handle: Any = display(self._figure, display_id=True)  # type: ignore[no-untyped-call]

    def show(self, times: list[float], curves: Mapping[str, list[float]]) -> None:
        """Draw."""
        axes = self._axes
        axes.clear()
        for (name, curve), colour in zip(curves.items(), _COLOURS, strict=False):
            axes.plot(times, curve, color=colour, label=f"{name}, {self._cores[name]} %")
            axes.axhline(self._cores[name], color=colour, linewidth=0.8, linestyle=":")
        axes.set(xlabel="seconds", ylabel="% of the card", ylim=(0, 105))
        axes.legend(loc="upper left")
        if self._handle is not None:
            self._handle.update(self._figure)

    def close(self) -> None:
        """Leave the last picture."""
        self._plt.close(self._figure)


def _first_card() -> CardUuid:
    import pynvml

    with nvml():
        if pynvml.nvmlDeviceGetCount() == 0:
            raise NoGpuError("This machine has no card.")
        uuid = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(0))
    return CardUuid(uuid if isinstance(uuid, str) else uuid.decode())
