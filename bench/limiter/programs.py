"""Compiling the C programs of the bench against this machine's driver, and the CUDA runtime if it is there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-pthread")
_APART = ("cudart.c", "static.c", "plugin.c")  # of ways/, not part of the program `ways`
_FIND_DRIVER = """
import ctypes
ctypes.CDLL("libcuda.so.1")
print(next(line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line))
"""


class BuildError(RuntimeError):
    """A program can't be compiled.  One plain sentence, and the compiler's words."""


@dataclass(frozen=True)
class Programs:
    """Compiled programs by name, and why the missing ones are missing."""

    folder: Path
    missing: dict[str, str] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """Where the program `name` lies."""
        return self.folder / name


def build_programs(folder: Path, *, include: Path, sim: Path | None) -> Programs:
    """Compile all programs into `folder`.

    Args:
        folder: made with its parents.
        include: the folder of cuda.h.
        sim: the folder of the simulated driver; None: the machine's own.

    Raises:
        BuildError: no compiler, no driver, or a program of ours doesn't compile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    driver = sim / "libcuda.so.1" if sim else find_driver()
    link: list[Path | str] = [driver, "-Wl,--allow-shlib-undefined", *([f"-Wl,-rpath,{sim}"] if sim else []), "-ldl"]
    ways, cost = HERE / "ways", HERE / "cost"
    programs = Programs(folder)
    _compile(folder / "ways", include, [f for f in sorted(ways.glob("*.c")) if f.name not in _APART], link)
    _compile(folder / "plugin.so", include, [ways / "plugin.c"], ["-shared", "-fPIC", "-ldl"])
    (folder / "blind").mkdir(exist_ok=True)
    _compile(folder / "blind" / "libnvidia-ml.so.1", include, [ways / "plugin.c"], ["-shared", "-fPIC", "-ldl"])
    _compile(folder / "cost", include, [cost / "cost.c", HERE.parent / "raw_symbol.c"], link)
    _compile(folder / "start", include, [cost / "start.c"], link)
    _compile(
        folder / "bypass.so", include, [cost / "bypass.c", HERE.parent / "raw_symbol.c"], ["-shared", "-fPIC", "-ldl"]
    )
    _compile_if_possible(programs, "static", include, [ways / "static.c", ways / "plugin.c"], ["-static", "-ldl"])
    runtime = find_runtime(include)
    if sim:
        programs.missing["cudart"] = "NVIDIA's runtime runs on NVIDIA's driver only"
    elif runtime is None:
        programs.missing["cudart"] = "libcudart_static.a was not found"
    else:
        _compile_if_possible(programs, "cudart", include, [ways / "cudart.c"], [runtime, "-ldl", "-lrt"])
    return programs


def _compile(output: Path, include: Path, sources: Sequence[Path], link: Sequence[Path | str]) -> None:
    # the CUDA headers' own style is not ours to judge
    command = ["cc", *_FLAGS, "-isystem", include, *sources, "-o", output, *link]
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"There is no C compiler: cc can't be started ({error.strerror}). Install gcc.") from None
    if done.returncode:
        raise BuildError(f"{output.name} can't be compiled:\n{done.stderr.strip()}")


def _compile_if_possible(
    programs: Programs, name: str, include: Path, sources: Sequence[Path], link: Sequence[Path | str]
) -> None:
    try:
        _compile(programs.path(name), include, sources, link)
    except BuildError as error:
        programs.missing[name] = str(error).splitlines()[-1]


def find_driver() -> Path:
    """The file of this machine's libcuda.

    Raises:
        BuildError: there is none.
    """
    # in a process of its own: loading the driver leaves threads and files behind
    done = subprocess.run([sys.executable, "-c", _FIND_DRIVER], capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError("libcuda.so.1 was not found. Install NVIDIA's driver, or use --simulated.")
    return Path(done.stdout.strip())


def find_runtime(include: Path) -> Path | None:
    """NVIDIA's static runtime, near the headers or the toolkit."""
    root = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    folders = [include.parent / "lib", include.parent / "lib64", *include.parents[0:3]]
    folders += [root / "lib64", *sorted(root.glob("targets/*/lib"))]
    return next((f / "libcudart_static.a" for f in folders if (f / "libcudart_static.a").is_file()), None)
