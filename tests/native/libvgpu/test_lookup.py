"""Every way to an address of the driver leads to the limiter's wrapper, and to the raw one where there is no slice."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import PROGRAMS, Machine, Slice
from .test_build import JUDGEMENTS, generator

LIBC_DLSYM = {"x86_64": "GLIBC_2.2.5", "aarch64": "GLIBC_2.17"}[platform.machine()]
JUDGED = generator.read_judgements(JUDGEMENTS)["cuda"]
HOOKED = sorted(name for name, judgement in JUDGED.items() if judgement.hooked)

WAYS = {
    "handle": ("by_handle",),
    "libc's dlsym": ("by_raw_dlsym", LIBC_DLSYM),
    "RTLD_DEEPBIND plugin": ("by_plugin", "PLUGIN"),
    "dlmopen": ("by_namespace", "PLUGIN"),
    "dlmopen from a plugin opened by dlmopen": ("by_nested_namespace", "PLUGIN"),
    "libc's dlmopen": ("by_found_dlmopen", "PLUGIN"),
    "dlmopen after many that failed": ("after_failed_namespaces", "PLUGIN"),
    "a copy of libcuda": ("in_a_copy", "COPY"),
    "after dlclose": ("after_close",),
}


@pytest.fixture
def look(native, machine, tmp_path):
    """Run `lookups` for a symbol and give its lines."""
    program = native.compile(PROGRAMS / "lookups.c")
    plugin = native.compile(PROGRAMS / "plugin.c", flags=("-shared", "-fPIC"))
    copy = tmp_path / "elsewhere" / "libcuda.so.1"
    copy.parent.mkdir()
    shutil.copy(machine.sim / "libcuda.so.1", copy)

    def run(way: tuple[str, ...], symbol: str, place: Slice | None, **environment: str) -> list[str]:
        name, *rest = way
        rest = [{"PLUGIN": str(plugin), "COPY": str(copy)}.get(r, r) for r in rest]
        environment |= place.environment if place else {}
        return machine.run(program, name, "libcuda.so.1", symbol, *rest, **environment).stdout.splitlines()

    return run


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_hooked_name_is_ours_in_a_slice(look, machine, way):
    assert look(way, "cuMemAlloc_v2", machine.slice(1000))[-1] == "libvgpu.so cuMemAlloc_v2"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_another_name_stays_the_drivers(look, machine, way):
    assert look(way, "cuCtxGetCurrent", machine.slice(1000))[-1] == "libcuda.so.1 cuCtxGetCurrent"


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_every_name_is_the_drivers_without_a_slice(look, way):
    assert look(way, "cuMemAlloc_v2", None)[-1] == "libcuda.so.1 cuMemAlloc_v2"


@pytest.mark.parametrize(("sliced", "library"), [(True, "libvgpu.so"), (False, "libcuda.so.1")])
def test_dlvsym(native, machine, tmp_path, sliced, library):
    version = tmp_path / "version"
    version.write_text("LIBCUDA_TEST { global: *; };")
    flags = ("-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", f"-Wl,--version-script={version}")
    driver = native.compile(PROGRAMS / "versioned_driver.c", flags=flags)
    folder = tmp_path / "versioned"
    folder.mkdir()
    shutil.copy(driver, folder / "libcuda.so.1")
    environment = machine.slice(1000).environment if sliced else {}
    program = native.compile(PROGRAMS / "lookups.c")
    for symbol, where in (("cuMemAlloc_v2", library), ("cuCtxGetCurrent", "libcuda.so.1")):
        done = machine.run(program, "by_version", folder / "libcuda.so.1", symbol, **environment)
        assert done.stdout == f"{where} {symbol}\n"


def test_two_copies_of_the_driver_are_one_in_a_slice(look, machine):
    assert look(("in_a_copy", "COPY"), "cuInit", machine.slice(1000))[0] == "one driver"
    assert look(("in_a_copy", "COPY"), "cuInit", None)[0] == "two drivers"


def test_a_namespace_meets_the_same_limit(native, machine):
    """The plugin's driver in there is the program's own: one context, one place in the ledger."""
    plugin = native.compile(PROGRAMS / "plugin.c", flags=("-shared", "-fPIC"))
    place = machine.slice(1000)
    guest = place.guest()
    guest("start(); import ctypes; inside = ctypes.CDLL(None).dlmopen; inside.restype = c_void_p")
    guest(f"handle = c_void_p(inside(c_void_p(-1), {str(plugin)!r}.encode(), 2))")
    guest("find = ctypes.CDLL(None).dlsym; find.restype = c_void_p")
    guest("look = ctypes.CFUNCTYPE(c_void_p, c_char_p, c_char_p)(find(handle, b'plugin_look'))")
    guest("take = ctypes.CFUNCTYPE(c_int, c_void_p, c_size_t)(look(b'libcuda.so.1', b'cuMemAlloc_v2'))")
    assert guest("[take(byref(c_uint64()), 300 << 20) for _ in range(4)]") == [0, 0, 2, 2]
    assert place.used() == 104 + 600 == machine.true_use(guest.pid)
    assert len(place.view().processes) == 1


def test_driver_works_after_dlclose(look, machine):
    assert look(("after_close",), "cuInit", machine.slice(1000))[0] == "cuInit answers 0"


def test_global_lookup_finds_nothing_until_the_driver_is_there(look, machine):
    place = machine.slice(1000)
    assert look(("global",), "cuMemAlloc_v2", place) == ["nothing", "nothing", *["libvgpu.so cuMemAlloc_v2"] * 2]
    assert look(("global",), "cuMemAlloc_v2", None) == ["nothing", "nothing", *["libcuda.so.1 cuMemAlloc_v2"] * 2]


def test_rtld_next_answers_twice(look, machine):
    assert look(("next_twice",), "malloc", machine.slice(1000))[-1].startswith("libc.so.6 ")


def test_rtld_next_is_seen_from_the_caller(native, machine):
    """A library asks for what stands behind itself: not for what stands behind the limiter."""
    plugin = native.compile(PROGRAMS / "plugin.c", flags=("-shared", "-fPIC"))
    code = f"p = ctypes.CDLL({str(plugin)!r}, ctypes.RTLD_GLOBAL); p.plugin_next.restype = c_void_p"
    for place in (machine.slice(1000).guest(), machine.guest()):
        place("import ctypes")
        place(code)
        # plugin_own is in the plugin itself, so nothing of that name is behind it
        assert place("p.plugin_next(b'plugin_own')") is None
        assert place("p.plugin_next(b'malloc') is not None")


@pytest.mark.parametrize("sliced", [True, False])
def test_linked_program(native, machine, sliced):
    program = native.compile(
        PROGRAMS / "linked.c", flags=(f"-L{native.sim}", "-l:libcuda.so.1", f"-Wl,-rpath-link,{native.sim}")
    )
    environment = machine.slice(1000).environment if sliced else {}
    count, code = map(int, machine.run(program, "256", **environment).stdout.split())
    assert code == 2
    assert count == (3 if sliced else (15360 - 104) // 256)


VERSIONS = (3020, 4000, 6050, 9000, 10010, 11010, 11020, 11040, 12000, 12030, 12040, 12080, 13000, 13050, 99999)
BASES = sorted({name.removesuffix("_ptsz").removesuffix("_ptds").split("_v")[0] for name in JUDGED})
ASK = f"""
import ctypes, json
from ctypes import byref, c_char_p, c_int, c_uint, c_uint64, c_void_p
lib = ctypes.CDLL("libcuda.so.1")
assert lib.cuInit(0) == 0
class Info(ctypes.Structure):
    _fields_ = [("file", c_char_p), ("base", c_void_p), ("name", c_char_p), ("address", c_void_p)]
dladdr = ctypes.CDLL(None).dladdr
def where(pointer):
    info = Info()
    if not pointer.value or not dladdr(pointer, byref(info)) or not info.name:
        return None
    return [info.file.decode().rsplit("/", 1)[-1], info.name.decode()]
# as libcudart does: through the pointer that the driver itself gives out
def ask(function, name, version, flags, *status):
    pointer = c_void_p()
    code = function(c_char_p(name.encode()), byref(pointer), c_int(version), c_uint64(flags), *status)
    return [code, where(pointer)]
found = {{}}
pointer, status = c_void_p(), c_int(77)
assert lib.cuGetProcAddress_v2(b"cuGetProcAddress", byref(pointer), 12000, c_uint64(0), byref(status)) == 0
found["self"] = where(pointer)
found["status"] = status.value
newer = ctypes.CFUNCTYPE(c_int, c_char_p, c_void_p, c_int, c_uint64, c_void_p)(pointer.value)
for name in {BASES!r}:
    for version in {VERSIONS!r}:
        for flags in (0, 1, 2):
            status = c_int(77)
            key = f"{{name}} {{version}} {{flags}}"
            found[key] = ask(newer, name, version, flags, byref(status)) + [status.value]
            found["old " + key] = ask(lib.cuGetProcAddress, name, version, flags)
print(json.dumps(found))
"""


def _ask(environment: dict[str, str]) -> dict[str, list]:
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def _same_symbol_but_ours(raw: list, ours: list) -> bool:
    if raw[1] is None:
        return raw == ours
    symbol = raw[1][1]
    library = "libvgpu.so" if symbol in HOOKED else "libcuda.so.1"
    return ours == [raw[0], [library, symbol], *raw[2:]]


def test_cu_get_proc_address_at_each_version_and_flag(machine: Machine):
    raw = _ask(machine.raw_environment)
    ours = _ask({**machine.environment, **machine.slice(1000).environment})
    assert ours["self"][0] == "libvgpu.so"
    assert ours["status"] == raw["status"]
    wrong = [key for key in raw if " " in key and not _same_symbol_but_ours(raw[key], ours[key])]
    assert wrong == []
    # the comparison saw both kinds, and more than one version of a name
    symbols = {answer[1][1] for key, answer in raw.items() if " " in key and answer[1]}
    assert {"cuMemAlloc_v2", "cuCtxCreate_v2", "cuCtxCreate_v4", "cuMemAllocAsync_ptsz", "cuCtxGetCurrent"} <= symbols
    assert _ask(machine.environment) == raw


def test_inert_without_a_slice(machine: Machine):
    """No mapping of ours but the library, no thread, nothing opened."""
    guest = machine.guest()
    guest("start(); alloc(1)")
    maps = Path(f"/proc/{guest.pid}/maps").read_text()
    assert "libvgpu" in maps
    assert "hami-test" not in maps.replace(str(machine.folder / "sim"), "")
    raw = machine.outsider()
    raw("start(); alloc(1)")
    threads = [len(os.listdir(f"/proc/{g.pid}/task")) for g in (guest, raw)]
    assert threads[0] == threads[1]
    assert guest("info()") == [15360 - 104 - 104 - 4, 15360]


def test_nothing_is_loaded_into_programs_that_use_no_card(machine: Machine):
    place = machine.slice(1000)
    maps = machine.run("/bin/cat", "/proc/self/maps", **place.environment).stdout
    assert "libvgpu" in maps
    assert "libcuda" not in maps
    assert "libnvidia-ml" not in maps
    assert str(place.directory) not in maps
