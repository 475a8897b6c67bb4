"""A simulated card for one test, and what runs on it: C programs, and Python processes with ctypes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ..conftest import ROOT, NativeBuild

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
SANITIZER = {"ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}


@dataclass
class Guest:
    """A Python process on the card that evaluates what it is told (guest.py)."""

    process: subprocess.Popen[str]

    def __call__(self, code: str) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"The guest ended with {self.process.wait()}."
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["value"]

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, and wait until it is reaped."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


@dataclass
class Machine:
    """A simulation directory of its own, on tmpfs."""

    build: NativeBuild
    directory: Path
    stack: ExitStack
    environment: dict[str, str] = field(default_factory=dict)

    def env(self, **more: str) -> dict[str, str]:
        base = {k: v for k, v in os.environ.items() if not k.startswith(("HAMI_", "CUDA_", "LD_"))}
        base |= {"HAMI_SIM_DIR": str(self.directory), "LD_LIBRARY_PATH": str(self.build.sim)}
        return base | SANITIZER | self.environment | more

    def program(self, name: str) -> Path:
        """The compiled program of that name; kept until a source is newer."""
        source, output = PROGRAMS / f"{name}.c", self.build.folder / "programs" / f"sim-{name}"
        headers = [PROGRAMS / "check.h", ROOT / "native/simgpu/hamisim.h"]
        if output.exists() and output.stat().st_mtime > max(p.stat().st_mtime for p in (source, *headers)):
            return output
        output.parent.mkdir(exist_ok=True)
        command = ["cc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
        command += ["-D__CUDA_API_VERSION_INTERNAL", "-DNVML_NO_UNVERSIONED_FUNC_DEFS"]
        command += ["-isystem", str(self.build.include), f"-I{ROOT / 'native/simgpu'}", str(source)]
        if self.build.sanitize:
            command += [f"-fsanitize={self.build.sanitize}", "-fno-omit-frame-pointer"]
        draft = output.with_suffix(f".{os.getpid()}")
        command += [f"-L{self.build.sim}", "-l:libcuda.so.1", "-l:libnvidia-ml.so.1", "-o", str(draft)]
        subprocess.run(command, check=True)
        draft.rename(output)
        return output

    def run(self, name: str, *arguments: str, text: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Run a C program to its end."""
        command = [self.program(name), *arguments]
        return subprocess.run(
            command, input=text, env=self.env(**env), capture_output=True, text=True, timeout=60, check=False
        )

    def python(self, code: str, **env: str) -> str:
        """What a Python program prints."""
        done = subprocess.run(
            [sys.executable, "-c", code], env=self.env(**env), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def guest(self, *wrapper: str, **env: str) -> Guest:
        process = subprocess.Popen(
            [*wrapper, sys.executable, str(HERE / "guest.py")],
            env=self.env(**env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.stack.callback(_end, process)
        return Guest(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe and not pipe.closed:
            pipe.close()


def _machine(build: NativeBuild) -> Iterator[Machine]:
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="hami-sim-test-", dir="/dev/shm"))
        stack.callback(shutil.rmtree, directory)
        yield Machine(build, directory, stack)


@pytest.fixture
def machine(native: NativeBuild) -> Iterator[Machine]:
    yield from _machine(native)


@pytest.fixture
def sanitized_machine(native_address: NativeBuild) -> Iterator[Machine]:
    yield from _machine(native_address)
