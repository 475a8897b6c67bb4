"""The card as it is seen by somebody who is in no slice: NVML's own figures of each process, without any limiter."""

from __future__ import annotations

import ctypes
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pynvml

MIB = 1 << 20
_POLL_SECONDS = 0.001


class CardError(RuntimeError):
    """There is no card to measure on, or it doesn't answer.  One plain sentence."""


@dataclass(frozen=True)
class CardFacts:
    """The card that is measured on; `vram` in MiB."""

    uuid: str
    model: str
    vram: int
    driver: str


@dataclass(frozen=True)
class Seen:
    """What one session's processes held, in MiB, and the longest time in a row above the limit, in ms."""

    peak: int
    above_ms: float


class Outside:
    """NVML's view of the cards; what is measured lies on the first one.

    Args:
        sim: the folder of the simulated libnvidia-ml.so.1; None: the machine's own.

    Raises:
        CardError: no driver, or no card.
    """

    def __init__(self, *, sim: Path | None) -> None:
        try:
            if sim:
                # found by its name from then on
                ctypes.CDLL(str(sim / "libnvidia-ml.so.1"), mode=ctypes.RTLD_GLOBAL)
            pynvml.nvmlInit()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
            first = self._handles[0]
        except (OSError, IndexError, pynvml.NVMLError) as error:
            raise CardError(f"There is no card here ({error}). Use --simulated to try the bench.") from None
        self.card = CardFacts(
            uuid=pynvml.nvmlDeviceGetUUID(first),
            model=pynvml.nvmlDeviceGetName(first),
            vram=pynvml.nvmlDeviceGetMemoryInfo(first).total // MIB,
            driver=pynvml.nvmlSystemGetDriverVersion(),
        )
        self.uuids = [pynvml.nvmlDeviceGetUUID(handle) for handle in self._handles]
        self._sessions: dict[int, int] = {}

    def held(self, session: int) -> int:
        """MiB that the processes of a session hold now, on the card where they hold most.

        Raises:
            CardError: NVML doesn't say.
        """
        try:
            listed = [pynvml.nvmlDeviceGetComputeRunningProcesses(handle) for handle in self._handles]
        except pynvml.NVMLError as error:
            raise CardError(f"NVML doesn't list the card's processes ({error}).") from None
        return (
            max(
                sum((p.usedGpuMemory or 0) for p in processes if self._session_of(p.pid) == session)
                for processes in listed
            )
            // MIB
        )

    def watch(self, session: int, *, limit: int) -> Watch:
        """Follow a session until the block ends; `limit` in MiB."""
        self._sessions.clear()  # pids come again
        return Watch(self, session, limit)

    def _session_of(self, pid: int) -> int:
        if pid not in self._sessions:
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                return -1
            self._sessions[pid] = int(fields[3])
        return self._sessions[pid]


class Watch:
    """Asks again and again in a thread of its own, while the block runs."""

    def __init__(self, outside: Outside, session: int, limit: int) -> None:
        self._outside, self._session, self._limit = outside, session, limit
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._peak, self._longest = 0, 0.0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def seen(self) -> Seen:
        """So far."""
        return Seen(self._peak, self._longest * 1000)

    def _follow(self) -> None:
        since: float | None = None
        while not self._over.wait(_POLL_SECONDS):
            try:
                held = self._outside.held(self._session)
            except CardError:
                continue  # a process went while it was listed
            self._peak = max(self._peak, held)
            if held <= self._limit:
                since = None
                continue
            now = time.monotonic()
            since = now if since is None else since
            self._longest = max(self._longest, now - since)
