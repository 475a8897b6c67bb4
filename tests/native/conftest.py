"""Builds the native parts once for a test session, and again with sanitizers for the tests that ask for them."""

from __future__ import annotations

import fcntl
import glob
import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILDS = ROOT / "build" / "tests"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The time limit is a test's, not the compiler's: on a busy machine a build with sanitizers takes minutes."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(func_only=True))


@dataclass(frozen=True)
class NativeBuild:
    """A finished build: where the libraries lie, and how to compile a program against the sources."""

    folder: Path
    include: Path
    sanitize: str

    @property
    def limiter(self) -> Path:
        return self.folder / "libvgpu" / "libvgpu.so"

    @property
    def sim(self) -> Path:
        """The folder of the simulated libcuda.so.1 and libnvidia-ml.so.1."""
        return next(iter(self.folder.glob("**/libcuda.so.1"))).parent

    def compile(self, program: Path, *sources: Path, flags: tuple[str, ...] = ()) -> Path:
        """Compile a C program or, with -shared among the flags, a library; kept until a source is newer."""
        variant = hashlib.sha256("\0".join(flags).encode()).hexdigest()[:8]
        output = self.folder / "programs" / f"{program.stem}-{variant}"
        inputs = [program, *sources, *program.parent.glob("*.h"), *(ROOT / "native/libvgpu").glob("**/*.h")]
        if output.exists() and output.stat().st_mtime > max(i.stat().st_mtime for i in inputs):
            return output
        output.parent.mkdir(exist_ok=True)
        folders = [ROOT / "native/libvgpu/include", ROOT / "native/libvgpu/src", self.include]
        command = ["cc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-pthread"]
        command += [f"-I{folder}" for folder in folders]
        # no two compilations write the same file at once
        draft = output.with_suffix(f".{os.getpid()}")
        subprocess.run([*command, program, *sources, *flags, "-ldl", "-o", draft], check=True)
        draft.rename(output)
        return output


def find_headers() -> Path:
    """The folder of cuda.h and nvml.h."""
    named = os.environ.get("HAMI_CUDA_INCLUDE")
    folders = [named] if named else []
    folders += [os.path.join(entry, "nvidia/cu13/include") for entry in sys.path if entry]
    folders += sorted(glob.glob(str(ROOT / "build/*/lib/python3*/site-packages/nvidia/cu13/include")))
    folders += ["/usr/local/cuda/include"]
    for folder in map(Path, folders):
        if (folder / "cuda.h").is_file() and (folder / "nvml.h").is_file():
            return folder
    pytest.fail("cuda.h and nvml.h were not found. Install nvidia-cuda-runtime and nvidia-nvml-dev.")


def build_native(name: str, sanitize: str = "", targets: tuple[str, ...] = (), compiler: str = "cc") -> NativeBuild:
    """Configure and build native/ in build/tests/<name>; quick when nothing has changed."""
    for tool in ("cmake", "ninja", compiler):
        if not shutil.which(tool):
            pytest.fail(f"The native tests need {tool}. Install it, or run `make test`.")
    folder = BUILDS / name
    include = find_headers()
    folder.mkdir(parents=True, exist_ok=True)
    with (BUILDS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        configure = ["cmake", "-S", ROOT / "native", "-B", folder, "-G", "Ninja", f"-DHAMI_CUDA_INCLUDE={include}"]
        configure += [f"-DHAMI_SANITIZE={sanitize}", f"-DPython3_EXECUTABLE={sys.executable}"]
        if compiler != "cc":
            configure += [
                "-DCMAKE_SYSTEM_NAME=Linux",
                f"-DCMAKE_C_COMPILER={compiler}",
                f"-DCMAKE_ASM_COMPILER={compiler}",
            ]
        for command in (configure, ["ninja", "-j2", "-C", folder, *targets]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.fail(f"{done.stdout[-4000:]}{done.stderr[-4000:]}", pytrace=False)
    return NativeBuild(folder, include, sanitize)


@pytest.fixture(scope="session")
def native() -> NativeBuild:
    """The native parts as they are shipped."""
    return build_native("native")


@pytest.fixture(scope="session")
def native_address() -> NativeBuild:
    """The same with AddressSanitizer and UndefinedBehaviorSanitizer."""
    return build_native("native-address", "address,undefined")


@pytest.fixture(scope="session")
def native_thread() -> NativeBuild:
    """The limiter with ThreadSanitizer."""
    return build_native("native-thread", "thread")
