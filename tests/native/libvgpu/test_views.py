"""What a slice shows of its card: the same numbers by CUDA and by NVML, also after a resize."""

from __future__ import annotations

import pytest
from guest_calls import OUT_OF_MEMORY

from .conftest import T4_MIB, Machine

LIMIT = 4000
CONTEXT = 104


def test_all_views_say_the_same(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); alloc(1000)")
    used = CONTEXT + 1000
    assert guest("info()") == [LIMIT - used, LIMIT]
    assert guest("total_mem()") == LIMIT
    assert guest("nvml_memory()") == [LIMIT, used, LIMIT - used, LIMIT, used, LIMIT - used, 0]
    assert place.used() == used


def test_a_program_without_a_context_sees_the_slice_by_nvml(machine: Machine):
    place = machine.slice(LIMIT)
    holder = place.guest()
    holder("start(); alloc(1000)")
    watcher = place.guest()
    assert watcher("nvml_memory()")[:3] == [LIMIT, CONTEXT + 1000, LIMIT - CONTEXT - 1000]


def test_null_arguments(machine: Machine):
    guest = machine.slice(LIMIT).guest()
    guest("start(); t = c_size_t(); f = c_size_t()")
    guest("cu('cuMemGetInfo_v2', None, byref(t)); cu('cuMemGetInfo_v2', byref(f), None)")
    assert guest("[f.value // MIB, t.value // MIB]") == [LIMIT - CONTEXT, LIMIT]


def test_free_is_never_more_than_the_card_has(machine: Machine):
    outsider = machine.outsider()
    outsider("start(); alloc(14000)")
    guest = machine.slice(LIMIT).guest()
    guest("start()")
    assert guest("info()") == [T4_MIB - 14000 - 2 * CONTEXT, LIMIT]
    # the card is full before the slice is: the driver's own refusal
    assert guest.refused("alloc(2000)") == OUT_OF_MEMORY


def test_a_slice_larger_than_the_card_shows_the_card(machine: Machine):
    guest = machine.slice(T4_MIB * 2).guest()
    guest("start()")
    assert guest("info()") == [T4_MIB - CONTEXT, T4_MIB]
    assert guest("total_mem()") == T4_MIB


def test_growing_works_at_once(machine: Machine):
    place = machine.slice(1000)
    guest = place.guest()
    guest("start()")
    assert guest.refused("alloc(2000)") == OUT_OF_MEMORY
    place.resize(3000)
    guest("alloc(2000)")
    assert guest("info()") == [3000 - 2000 - CONTEXT, 3000]


def test_shrinking_below_use_refuses_and_shows_no_less_than_nothing(machine: Machine):
    place = machine.slice(4000)
    guest = place.guest()
    guest("start(); p = alloc(2000)")
    place.resize(1000)
    assert guest("info()") == [0, 1000]
    assert guest("nvml_memory()") == [1000, 1000, 0, 1000, 1000, 0, 0]
    assert guest.refused("alloc_bytes(1)") == OUT_OF_MEMORY
    for way in ("cuMemAllocAsync", "cuMemCreate", "cuArrayCreate_v2", "cuCtxCreate_v2"):
        assert guest.refused(f"take({way!r}, 1)") == OUT_OF_MEMORY
    guest("free(p); alloc(800)")
    assert guest("info()") == [1000 - 800 - CONTEXT, 1000]


def test_only_the_slices_processes_are_listed(machine: Machine):
    other = machine.slice(LIMIT, name="bob").guest()
    other("start()")
    outsider = machine.outsider()
    outsider("start()")
    place = machine.slice(LIMIT)
    first, second = place.guest(), place.guest()
    first("start()")
    second("start()")
    assert second("nvml_pids()") == sorted([first.pid, second.pid])
    assert other("nvml_pids()") == [other.pid]
    assert outsider("nvml_pids()") == sorted([first.pid, second.pid, other.pid, outsider.pid])
    first.kill()
    assert second("nvml_pids()") == [second.pid]


def test_process_list_follows_nvmls_rules_for_small_arrays(machine: Machine):
    place = machine.slice(LIMIT)
    first, second = place.guest(), place.guest()
    first("start()")
    second("start()")
    second("n = ctypes.CDLL('libnvidia-ml.so.1'); n.nvmlInit_v2(); h = c_void_p()")
    second("n.nvmlDeviceGetHandleByIndex_v2(c_uint(0), byref(h)); count = c_uint(0)")
    call = "[n.nvmlDeviceGetComputeRunningProcesses_v3(h, byref(count), {}), count.value]"
    assert second(call.format("None")) == [7, 2]
    second("count = c_uint(1); one = (ctypes.c_ubyte * 24)()")
    assert second(call.format("one")) == [7, 2]
    second("many = (ctypes.c_ubyte * 240)(); count = c_uint(10)")
    assert second(call.format("many")) == [0, 2]


def test_a_whole_card_shows_itself_and_counts_nothing(machine: Machine):
    place = machine.slice(T4_MIB, whole=True)
    guest = place.guest()
    guest("start(); alloc(1000)")
    assert guest("info()") == [T4_MIB - 1000 - CONTEXT, T4_MIB]
    assert guest("nvml_memory()")[0] == T4_MIB
    assert place.used() == 0
    assert guest("take_until_refused('cuMemAlloc_v2', 1000)") == 14
    assert place.view().refusals == ()


@pytest.mark.parametrize("call", ["cuMemGetInfo", "cuDeviceTotalMem"])
def test_the_first_versions_count_in_32_bits(machine: Machine, call: str):
    guest = machine.slice(LIMIT).guest()
    guest("start(); a = c_uint(); b = c_uint()")
    guest("cu('cuMemGetInfo', byref(a), byref(b))" if call == "cuMemGetInfo" else f"cu({call!r}, byref(b), c_int(0))")
    assert guest("b.value // MIB") == LIMIT
