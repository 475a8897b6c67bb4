"""The bench that proofs are run on: a scratch folder, the card, and slices of it without a hub."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from ... import native
from ...core.cards import CardUuid
from ...core.slices import CardShare, Placement
from ...core.units import Mib, Percent
from ...slicepage import create_slice
from ...spawner.environment import slice_environment

_TMPFS = Path("/dev/shm")  # noqa: S108  the folder in it is made by mkdtemp
HAMI_HUB = (sys.executable, "-m", "hami_hub.cli")


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that was run: its words, exit code (None: not done in time), and what it printed on either stream."""

    command: str
    code: int | None
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """Both streams, as a terminal would show them last."""
        return "\n".join(text for text in (self.stdout.rstrip(), self.stderr.rstrip()) if text)


@dataclass(frozen=True, slots=True)
class CardFacts:
    """The card that is proven on: the machine's first of `count`."""

    uuid: CardUuid
    model: str
    vram: Mib
    count: int


class Bench:
    """Where proofs run.

    Args:
        scratch: a folder of this run, on tmpfs.
        simulated: meet a simulated card.

    Raises:
        click.ClickException: there is no card.
    """

    def __init__(self, scratch: Path, *, simulated: bool) -> None:
        self.scratch = scratch
        self.simulated = simulated
        self.environment = dict(os.environ)
        if simulated:
            self.environment |= native.sim_environment(scratch / "sim", profile="t4")
        self.smi: tuple[str, ...] = (*HAMI_HUB, "smi")
        if not simulated and shutil.which("nvidia-smi"):
            self.smi = ("nvidia-smi",)
        self.card = self._card()
        self.torch = self._has_torch()

    def run(self, *command: str, environment: Mapping[str, str] | None = None, seconds: float = 60) -> Ran:
        """Run a command to its end, or end it and what it started after `seconds`."""
        shown = shlex.join(command).replace(shlex.quote(sys.executable), "python")
        try:
            process = subprocess.Popen(
                command,
                env=dict(environment or self.environment),
                cwd=self.scratch,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        except OSError as error:
            return Ran(shown, 127, "", f"{command[0]}: {error.strerror}")
        try:
            stdout, stderr = process.communicate(timeout=seconds)
            return Ran(shown, process.returncode, stdout, stderr)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            return Ran(shown, None, stdout, f"{stderr}\nNot done after {seconds:g} s.")

    def slice(self, name: str, *, vram: int, cores: int = 0) -> dict[str, str]:
        """Make a slice of the card, and the environment of a process in it."""
        placement = Placement((CardShare(self.card.uuid, Mib(vram), Percent(cores)),))
        directory = self.scratch / "slices" / name
        create_slice(directory, name=name, placement=placement)
        return slice_environment(self.environment, placement, directory=directory, preload=native.limiter_path())

    def _card(self) -> CardFacts:
        asked = self.run(*HAMI_HUB, "smi", "--query-gpu=uuid,name,memory.total", "--format=csv,noheader,nounits")
        if asked.code != 0 or not asked.stdout.strip():
            said = asked.output.removeprefix("Error: ") or "no card answers."
            raise click.ClickException(f"There is nothing to prove on: {said} Try `hami-hub prove --simulated`.")
        lines = asked.stdout.splitlines()
        uuid, model, vram = lines[0].split(", ")
        return CardFacts(CardUuid(uuid), model, Mib(int(vram)), len(lines))

    def _has_torch(self) -> bool:
        asked = self.run(sys.executable, "-c", "import torch; print(torch.cuda.is_available())", seconds=120)
        return asked.stdout.strip() == "True"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for one run, gone after it."""
    with tempfile.TemporaryDirectory(prefix="hami-prove-", dir=_TMPFS, ignore_cleanup_errors=True) as folder:
        yield Path(folder)
