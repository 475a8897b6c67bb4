"""The entry points that a CUDA header declares: name, result, parameters.  Shared by every generator in this folder.

cuda.h gives three views of itself: the current names, the per-thread-default-stream twins (`_ptsz`, `_ptds`), and the
old versions that the driver still exports.  The C preprocessor shows each; together they are libcuda's ELF symbols.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CUDA_VIEWS = (
    (),
    ("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",),
    ("-D__CUDA_API_VERSION_INTERNAL",),
)
# Without NVML_NO_UNVERSIONED_FUNC_DEFS a name such as nvmlInit is a macro for its newest version.
NVML_VIEWS = ((), ("-DNVML_NO_UNVERSIONED_FUNC_DEFS",))

_PROTOTYPE = re.compile(
    r"\b(?P<result>CUresult|nvmlReturn_t|const char\s*\*)\s+(?P<name>(?:cu|nvml)[A-Z]\w*)"
    r"\s*\((?P<parameters>[^;{}]*)\)\s*;"
)


@dataclass(frozen=True)
class Parameter:
    """One parameter: its declaration as in the header (`CUdeviceptr *dptr`) and its bare name (`dptr`)."""

    declaration: str
    name: str


@dataclass(frozen=True)
class EntryPoint:
    """One exported function of the driver's library."""

    name: str
    result: str
    parameters: tuple[Parameter, ...]

    @property
    def signature(self) -> str:
        """The parameter list as C, `void` if there is none."""
        return ", ".join(p.declaration for p in self.parameters) or "void"

    @property
    def arguments(self) -> str:
        """The parameters' names, for a call that forwards them."""
        return ", ".join(p.name for p in self.parameters)


def cuda_entry_points(include: Path, *, compiler: str = "cc") -> list[EntryPoint]:
    """Every cu* function of cuda.h (with its GL, EGL and profiler parts left out), sorted by name."""
    return _collect(include / "cuda.h", include, CUDA_VIEWS, compiler)


def nvml_entry_points(include: Path, *, compiler: str = "cc") -> list[EntryPoint]:
    """Every nvml* function of nvml.h, sorted by name."""
    return _collect(include / "nvml.h", include, NVML_VIEWS, compiler)


def _collect(header: Path, include: Path, views: tuple[tuple[str, ...], ...], compiler: str) -> list[EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for flags in views:
        command = [compiler, "-E", "-P", "-x", "c", f"-I{include}", *flags, str(header)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for entry in _parse(text):
            found.setdefault(entry.name, entry)
    return [found[name] for name in sorted(found)]


def _parse(text: str) -> Iterator[EntryPoint]:
    for match in _PROTOTYPE.finditer(text):
        declarations = _split(" ".join(match["parameters"].split()))
        parameters = tuple(_parameter(d, i) for i, d in enumerate(declarations) if d != "void")
        yield EntryPoint(match["name"], " ".join(match["result"].split()), parameters)


def _split(parameters: str) -> list[str]:
    """Split at the commas that are not inside parentheses."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(parameters):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(parameters[start:i].strip())
            start = i + 1
    last = parameters[start:].strip()
    return [*parts, last] if last else parts


def _parameter(declaration: str, index: int) -> Parameter:
    pointer_to_function = re.search(r"\(\s*(?:\w+\s*)?\*\s*(\w+)\s*\)", declaration)
    if pointer_to_function:
        return Parameter(declaration, pointer_to_function[1])
    words = re.search(r"(\w+)\s*((?:\[[^\]]*\])*)$", declaration)
    bare_type = re.fullmatch(r"(?:const\s+)?(?:unsigned\s+)?\w+\s*\**", declaration)
    if words and not (bare_type and " " not in declaration.strip("* ")):
        return Parameter(declaration, words[1])
    return Parameter(f"{declaration} arg{index}", f"arg{index}")
