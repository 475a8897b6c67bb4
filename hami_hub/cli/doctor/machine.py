"""What the doctor asks of the machine: one method a question, no judgement.  `checks` judges, and is tested with a
`Machine` that answers as it likes.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import pynvml

from ...cards import nvml, read_cards
from ...core.cards import Card
from ...core.slices import CardShare, Placement
from ...core.units import Mib, Percent
from ...native import LIMITER, is_simulated, limiter_path
from ...slicepage import create_slice, find_slice
from ...slicepage.reader import MOUNTED_SLICE
from ..demo import ports

_SECONDS = 60
_ASK_TOTAL = """\
import pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByUUID({uuid!r})
print(pynvml.nvmlDeviceGetMemoryInfo(handle).total // 1048576)
"""


class Machine:
    """This machine as the doctor meets it."""

    def driver(self) -> str:
        """Driver and CUDA version.  Raises NoCardsError."""
        with nvml():
            cuda = pynvml.nvmlSystemGetCudaDriverVersion_v2()
            return f"{pynvml.nvmlSystemGetDriverVersion()}, CUDA {cuda // 1000}.{cuda % 1000 // 10}"

    def simulated(self) -> bool:
        """Whether the cards are simulated ones."""
        return is_simulated()

    def cards(self) -> tuple[Card, ...]:
        """The cards.  Raises NoCardsError."""
        return read_cards()

    def limiter(self) -> Path:
        """The limiter's file.  Raises NativeMissingError."""
        return limiter_path()

    def preload(self, limiter: Path) -> str:
        """What a process that is started with the limiter says on stderr; nothing if it can be loaded."""
        child = _python("pass", {"LD_PRELOAD": str(limiter)})
        return child.stderr.strip() or ("" if child.returncode == 0 else f"exit code {child.returncode}")

    def total_in_slice(self, limiter: Path, card: Card, vram: Mib) -> tuple[Mib | None, str]:
        """The memory that a process in a slice of `vram` on `card` is shown, and what it said on stderr."""
        placement = Placement((CardShare(uuid=card.uuid, vram=vram, cores=Percent(0)),))
        with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hami-doctor-") as folder:
            directory = Path(folder) / "slice"
            create_slice(directory, name="doctor", placement=placement)
            environment = {"LD_PRELOAD": str(limiter), "HAMI_SLICE_DIR": str(directory)}
            child = _python(_ASK_TOTAL.format(uuid=card.uuid), environment)
        answer = child.stdout.strip()
        return (Mib(int(answer)) if answer.isdigit() else None), child.stderr.strip()

    def slice_directory(self) -> Path | None:
        """The slice that this process is in."""
        return find_slice()

    def slice_is_mounted(self) -> bool:
        """Whether that slice is out of the environment's reach."""
        return MOUNTED_SLICE.exists()

    def limiter_is_loaded(self) -> bool:
        """Whether this very process has the limiter."""
        return any(line.rstrip().endswith(f"/{LIMITER}") for line in Path("/proc/self/maps").open())

    def total_here(self, uuid: str) -> Mib | None:
        """The memory of a card as NVML tells this process."""
        with contextlib.suppress(pynvml.NVMLError), nvml():
            return Mib(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid)).total // 1048576)
        return None

    def writable(self, folder: Path) -> bool:
        """Whether files can be made in `folder`, or `folder` itself where it isn't yet."""
        while not folder.exists():
            folder = folder.parent
        return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)

    def why_not_port(self, port: int) -> str | None:
        """Why a port can't be listened on; None if it can."""
        return ports.why_not(port)

    def next_free_port(self, port: int) -> int | None:
        """A free one above it."""
        return ports.next_free(port)

    def hub_on(self, port: int) -> str | None:
        """The version of the JupyterHub that answers on a port; None if none does."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/hub/api/", timeout=3) as answer:
                return str(json.load(answer)["version"])
        except (OSError, ValueError, LookupError, TypeError, http.client.HTTPException):
            return None

    def package(self, distribution: str) -> str | None:
        """The installed version of a distribution; None if it isn't installed."""
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            return None

    def python(self) -> str:
        """The Python that runs, with its path."""
        return f"{sys.version.split()[0]} in {sys.executable}"

    def systemd_runs(self) -> bool:
        """Whether systemd is this machine's init."""
        return Path("/run/systemd/system").is_dir()


def _python(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
