"""Every entry point of the headers is there, and cuGetProcAddress gives each at its version."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from ..conftest import ROOT, NativeBuild
from .conftest import Machine

sys.path.insert(0, str(ROOT / "native" / "tools"))
from entry_points import cuda_entry_points, nvml_entry_points

HOOKS = set(re.findall(r"\b(hamisim_\w+)\(.*;", (ROOT / "native/simgpu/hamisim.h").read_text()))
FOUND, UNKNOWN, TOO_OLD = 0, 1, 2
LEGACY, PER_THREAD = 1, 2


def exports(library: Path) -> set[str]:
    lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in lines.splitlines()}


def test_libcuda_exports_the_entry_points_and_nothing_else(native: NativeBuild) -> None:
    declared = {e.name for e in cuda_entry_points(native.include)}
    assert len(declared) > 600
    assert exports(native.sim / "libcuda.so.1") == declared | HOOKS | {"cuProfilerStart", "cuProfilerStop"}


def test_nvml_exports_the_entry_points_and_nothing_else(native: NativeBuild) -> None:
    declared = {e.name for e in nvml_entry_points(native.include)}
    assert len(declared) > 400
    assert exports(native.sim / "libnvidia-ml.so.1") == declared | HOOKS


@pytest.mark.parametrize("name", ["libcuda.so.1", "libnvidia-ml.so.1"])
def test_a_library_needs_libc_only_and_binds_to_itself(native: NativeBuild, name: str) -> None:
    dynamic = subprocess.run(["readelf", "-d", native.sim / name], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
    assert needed <= {"libc.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
    assert f"soname: [{name}]" in dynamic
    assert "SYMBOLIC" in dynamic


def look_up(machine: Machine, *questions: tuple[str, int, int]) -> list[tuple[int, int, str]]:
    text = "".join(f"{name} {version} {flags}\n" for name, version, flags in questions)
    answers = [line.split() for line in machine.run("lookup", text=text).stdout.splitlines()]
    return [(int(result), int(status), symbol) for result, status, symbol in answers]


@pytest.mark.parametrize(
    ("name", "version", "flags", "symbol"),
    [
        ("cuMemAlloc", 2000, 0, "cuMemAlloc"),
        ("cuMemAlloc", 3010, 0, "cuMemAlloc"),
        ("cuMemAlloc", 3020, 0, "cuMemAlloc_v2"),
        ("cuMemAlloc", 13000, LEGACY, "cuMemAlloc_v2"),
        ("cuMemAllocAsync", 11020, 0, "cuMemAllocAsync"),
        ("cuMemAllocAsync", 11020, PER_THREAD, "cuMemAllocAsync_ptsz"),
        ("cuMemcpyHtoD", 6000, PER_THREAD, "cuMemcpyHtoD_v2"),
        ("cuMemcpyHtoD", 7000, PER_THREAD, "cuMemcpyHtoD_v2_ptds"),
        ("cuCtxCreate", 3020, 0, "cuCtxCreate_v2"),
        ("cuCtxCreate", 11040, 0, "cuCtxCreate_v3"),
        ("cuCtxCreate", 13000, 0, "cuCtxCreate_v4"),
        ("cuCtxGetDevice", 12090, 0, "cuCtxGetDevice"),
        ("cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2"),
        ("cuCtxSynchronize", 13000, 0, "cuCtxSynchronize_v2"),
        ("cuGetProcAddress", 11030, 0, "cuGetProcAddress"),
        ("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"),
        ("cuStreamGetCaptureInfo", 11030, PER_THREAD, "cuStreamGetCaptureInfo_v2_ptsz"),
        ("cuStreamGetCaptureInfo", 12030, LEGACY, "cuStreamGetCaptureInfo_v3"),
        ("cuMemPrefetchAsync", 8000, 0, "cuMemPrefetchAsync"),
        ("cuMemPrefetchAsync", 12020, PER_THREAD, "cuMemPrefetchAsync_v2_ptsz"),
        ("cuLaunchKernel", 13000, PER_THREAD, "cuLaunchKernel_ptsz"),
        ("cuInit", 13000, PER_THREAD, "cuInit"),
    ],
)
def test_a_name_is_found_as_it_was_in_a_version(
    machine: Machine, name: str, version: int, flags: int, symbol: str
) -> None:
    assert look_up(machine, (name, version, flags)) == [(0, FOUND, symbol)]


@pytest.mark.parametrize(
    ("name", "version", "flags", "answer"),
    [
        ("cuMemAllocAsync", 11010, 0, (0, TOO_OLD, "-")),
        ("cuNoSuchThing", 13000, 0, (0, UNKNOWN, "-")),
        ("cuMemAlloc_v2", 13000, 0, (0, UNKNOWN, "-")),
        ("curl_easy_init", 13000, 0, (0, UNKNOWN, "-")),
    ],
)
def test_what_is_not_there_is_success_without_a_pointer(
    machine: Machine, name: str, version: int, flags: int, answer: tuple[int, int, str]
) -> None:
    assert look_up(machine, (name, version, flags)) == [answer]


@pytest.mark.parametrize(("version", "flags"), [(99990, 0), (13000, 4), (0, 0)])
def test_a_version_beyond_the_driver_and_unknown_flags_are_invalid(machine: Machine, version: int, flags: int) -> None:
    [(result, _, _)] = look_up(machine, ("cuInit", version, flags))
    assert result == 1


def test_every_symbol_is_found_at_the_version_of_its_typedef(machine: Machine, native: NativeBuild) -> None:
    """The typedefs of a name by rising version are its symbols X, X_v2, X_v3 …; twins likewise."""
    declared = {e.name for e in cuda_entry_points(native.include)}
    typedefs = (native.include / "cudaTypedefs.h").read_text()
    versions: dict[tuple[str, str], set[int]] = defaultdict(set)
    for name, version, twin in re.findall(r"\*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)", typedefs):
        versions[name, twin].add(int(version))
    questions, symbols = [], []
    for (name, twin), introduced in versions.items():
        versions_of_it = [f"{name}{v}{twin}" for v in ("", "_v2", "_v3", "_v4") if f"{name}{v}{twin}" in declared]
        for version, symbol in zip(sorted(introduced), versions_of_it, strict=True):
            questions.append((name, version, PER_THREAD if twin else LEGACY))
            symbols.append(symbol)
    assert set(symbols) == declared
    assert look_up(machine, *questions) == [(0, FOUND, symbol) for symbol in symbols]


def test_a_stub_says_that_it_is_not_supported(machine: Machine) -> None:
    guest = machine.guest()
    assert guest("cuda.cuLogicalEndpointDestroy(None)") == 801
    assert guest("nvml.nvmlVgpuTypeGetMaxInstances(None, 0, None)") == 3
