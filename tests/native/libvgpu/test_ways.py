"""Every call that takes VRAM meets the limit, by the driver's own count, and gives everything back."""

from __future__ import annotations

import re

import guest_calls
import guest_holders  # noqa: F401  it adds ways
import guest_ways
import pytest

from .conftest import Machine
from .test_build import JUDGEMENTS, generator

LIMIT = 1000
CONTEXT = 104  # MiB that a context takes on a simulated T4
OUT_OF_MEMORY = guest_calls.OUT_OF_MEMORY
NOT_SUPPORTED = 801
# not in the figure that the driver shows of a process
INVISIBLE = {"cuMemAllocManaged"}
ALL = sorted(guest_ways.ways)
CONTEXTS = [way for way in ALL if way.startswith("cuCtx")]
# what these cost is seen only when it is there: taken, and undone
SEEN_AFTERWARDS = re.compile("cuModule|cuLibrary|cuKernel|cuLaunch")


def step_of(way: str) -> tuple[int, int]:
    """MiB to take at a time, and how often that fits."""
    step = CONTEXT if way in CONTEXTS else 100
    return step, (LIMIT - CONTEXT) // step


# the call in which it is seen, where that is another one
CALLS = {
    "created_mapped_and_released": {"cuMemCreate"},
    "bound_to_a_mipmap": {"cuMemCreate"},
    "bound_to_a_deferred_array": {"cuMemCreate"},
    "cuMemMapArrayAsync": {"cuMemCreate"},
    "cuMemMapArrayAsync_ptsz": {"cuMemCreate"},
    "cuLibraryEnumerateKernels": {"cuLaunchKernel"},
    "cuLibraryLoadFromFile": {"cuLaunchKernel"},
    **{way: {"cuGraphLaunch"} for way in ALL if way.startswith("cuGraphInstantiate")},
}


@pytest.mark.parametrize("way", ALL)
def test_is_refused_at_the_limit_and_comes_back(machine: Machine, way: str):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start()")
    assert place.used() == CONTEXT
    step, fits = step_of(way)
    count = guest(f"take_until_refused({way!r}, {step})")
    true_use = machine.true_use(guest.pid)
    assert true_use <= LIMIT
    if way not in INVISIBLE:
        # nothing taken is left out, and 128 MiB for 100 is what a pool reserves
        assert true_use >= CONTEXT + count * step
    assert count in (fits, (LIMIT - CONTEXT) // 128)
    assert true_use <= place.used() <= LIMIT
    if not SEEN_AFTERWARDS.match(way):
        assert place.view().cards[0].peak <= LIMIT
    if not (SEEN_AFTERWARDS.match(way) or "Async" in way):
        # a pool with room inside may still have to grow, which is undone
        assert place.view().cards[0].overshoots == 0
    guest("give_all()")
    free, total = guest("info()")
    assert [free, total] == [LIMIT - CONTEXT, LIMIT]
    assert machine.true_use(guest.pid) == CONTEXT
    # and it can be had again, all of it
    assert guest(f"take_until_refused({way!r}, {step})") == count
    assert guest.stderr() == ""


@pytest.mark.parametrize("way", ALL)
def test_the_refusal_is_written_down(machine: Machine, way: str):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start()")
    guest("alloc(700)")
    step, _ = step_of(way)
    guest(f"take_until_refused({way!r}, {step})")
    view = place.view()
    assert view.cards[0].refusals == len(view.refusals) == 1
    record = view.refusals[0]
    assert record.pid == guest.pid
    assert record.limit == LIMIT
    assert CONTEXT + 700 <= record.used <= LIMIT
    assert record.call.startswith("cu")
    assert record.call in CALLS.get(way, {way})
    assert record.holders[0][0] == guest.pid


@pytest.mark.parametrize("way", [w for w in ALL if w not in CONTEXTS])
def test_far_too_much_is_refused_at_once_and_takes_nothing(machine: Machine, way: str):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start()")
    assert guest.refused(f"take({way!r}, 2000)") == OUT_OF_MEMORY
    assert machine.true_use(guest.pid) == CONTEXT
    assert place.used() == CONTEXT
    assert guest("info()") == [LIMIT - CONTEXT, LIMIT]


@pytest.mark.parametrize("size", [1, 4096, 1 << 20])
def test_small_allocations_share_blocks(machine: Machine, size: int):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start()")
    guest(f"p = [alloc_bytes({size}) for _ in range(300)]")
    true_use = machine.true_use(guest.pid)
    assert true_use - 2 <= place.used() <= true_use + 2
    guest("[free(x) for x in p]")
    assert place.used() == CONTEXT == machine.true_use(guest.pid)


@pytest.mark.parametrize(("size", "mib"), [((1 << 20) + 1, 2), (2 << 20, 2), ((2 << 20) + 1, 4), (33 << 20, 34)])
def test_large_allocations_take_whole_blocks(machine: Machine, size: int, mib: int):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start()")
    guest(f"alloc_bytes({size})")
    assert place.used() == CONTEXT + mib == machine.true_use(guest.pid)


def test_98_percent_of_a_slice_can_be_had(machine: Machine):
    place = machine.slice(4000)
    guest = place.guest()
    guest("start()")
    guest(f"alloc({4000 - CONTEXT})")
    assert guest("info()") == [0, 4000]
    assert guest.refused("alloc_bytes(1)") == OUT_OF_MEMORY


def test_two_ways_at_once_share_one_limit(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start()")
    for way in ("cuMemAlloc_v2", "cuMemAllocAsync", "cuMemCreate", "cuArrayCreate_v2", "cuMemAllocManaged"):
        guest(f"take({way!r}, 128)")
    assert guest("take_until_refused('cuMemAllocFromPoolAsync', 128)") == 2
    assert place.used() == CONTEXT + 7 * 128


def test_physical_memory_lives_until_released_and_unmapped(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start()")
    guest("h = physical(200); a = map_physical(h, 200); b = map_physical(h, 200)")
    guest("release(h); unmap(a, 200)")
    assert place.used() == CONTEXT + 200
    guest("unmap(b, 200)")
    assert place.used() == CONTEXT == machine.true_use(guest.pid)
    guest("h = physical(200); a = map_physical(h, 200); r = c_uint64()")
    guest("cu('cuMemRetainAllocationHandle', byref(r), c_void_p(a))")
    guest("release(h); unmap(a, 200)")
    assert place.used() == CONTEXT + 200
    guest("release(r.value)")
    assert place.used() == CONTEXT


def test_exported_memory_stays_charged(machine: Machine):
    """A descriptor keeps it on the card after release, and no figure of the driver shows it: seen on a real card."""
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); fd = c_int(-1)")
    for _ in range(2):
        guest("h = physical(300, handle_types=1)")
        guest("cu('cuMemExportToShareableHandle', byref(fd), h, c_int(1), 0); release(h)")
    assert place.used() == CONTEXT + 600
    assert guest.refused("physical(300, handle_types=1)") == OUT_OF_MEMORY
    # the context is still seen beside it
    guest("free(alloc(200))")
    assert place.used() == CONTEXT + 600
    guest.kill()
    assert place.used() == 0


@pytest.mark.parametrize("location", [2, 3, 4], ids=["host", "host NUMA", "current host NUMA"])
def test_host_memory_is_not_vram(machine: Machine, location: int):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start()")
    code = guest.refused(f"physical(2000, location={location})")
    assert code != OUT_OF_MEMORY
    assert place.used() == CONTEXT
    guest("p = c_void_p(); cu('cuMemHostAlloc', byref(p), c_size_t(2000 * MIB), c_uint(0))")
    assert place.used() == CONTEXT


def test_an_unknown_pointer_goes_to_the_driver(machine: Machine):
    guest = machine.slice(LIMIT).guest()
    guest("start()")
    assert guest.refused("free(12345)") == machine_answer(machine, "free(12345)")
    guest("p = alloc(4); free(p)")
    assert guest.refused("free(p)") == machine_answer(machine, "free(12345)")


def machine_answer(machine: Machine, code: str) -> int | None:
    """What the driver alone answers."""
    outsider = machine.outsider()
    outsider("start()")
    return outsider.refused(code)


@pytest.mark.parametrize(
    "code",
    [
        "cu('cuMemFreeAsync', alloc(500), c_void_p(0)); cu('cuCtxSynchronize')",
        "p = c_uint64(); cu('cuMemAllocAsync', byref(p), c_size_t(500 * MIB), c_void_p(0)); free(p.value)",
    ],
    ids=["cuMemFreeAsync of cuMemAlloc", "cuMemFree of cuMemAllocAsync"],
)
def test_freeing_by_the_other_call(machine: Machine, code: str):
    guest = machine.slice(LIMIT).guest()
    guest("start()")
    for _ in range(3):
        guest(code)
    guest("alloc(880)")


def test_a_pools_cache_is_given_back_before_anybody_is_refused(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); keep = c_uint64(1 << 40)")
    guest("cu('cuMemPoolSetAttribute', pool(), c_int(4), byref(keep))")
    guest("take('cuMemAllocFromPoolAsync', 512); give_all()")
    assert place.used() == CONTEXT + 512
    guest("alloc(800)")
    assert machine.true_use(guest.pid) <= LIMIT


@pytest.mark.parametrize("wait", ["cuCtxSynchronize", "cuStreamSynchronize"])
def test_what_a_pool_gave_back_can_be_had_by_another_process(machine: Machine, wait: str):
    """At the moment that its owner waits for the card: nobody else can ask the driver for it."""
    place = machine.slice(LIMIT)
    owner, other = place.guest(), place.guest()
    owner("start(); p = c_uint64(); cu('cuMemAllocAsync', byref(p), c_size_t(500 * MIB), c_void_p(0))")
    owner("cu('cuMemFreeAsync', p.value, c_void_p(0))")
    other("start()")
    argument = ", c_void_p(0)" if wait == "cuStreamSynchronize" else ""
    owner(f"cu('{wait}'{argument})")
    other("alloc(700)")


def test_a_destroyed_pool_is_given_back(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); keep = c_uint64(1 << 40)")
    guest("cu('cuMemPoolSetAttribute', pool(), c_int(4), byref(keep)); take('cuMemAllocFromPoolAsync', 512)")
    guest("give_all(); cu('cuMemPoolDestroy', pool())")
    assert place.used() == CONTEXT


def test_a_graph_that_runs_again_takes_nothing_more(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); g, p = graph_with_memory(512)")
    for _ in range(3):
        guest("cu('cuGraphLaunch', g, c_void_p(0)); cu('cuMemFreeAsync', p, c_void_p(0)); cu('cuCtxSynchronize')")
    assert place.used() == CONTEXT + 512
    guest("cu('cuGraphExecDestroy', g); cu('cuDeviceGraphMemTrim', c_int(0))")
    assert place.used() == CONTEXT


def test_a_captured_allocation_is_charged_at_launch(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); s = c_void_p(); g = c_void_p(); x = c_void_p(); p = c_uint64()")
    guest("cu('cuStreamCreate', byref(s), c_uint(1)); cu('cuStreamBeginCapture_v2', s, c_int(0))")
    guest("cu('cuMemAllocAsync', byref(p), c_size_t(600 * MIB), s); cu('cuStreamEndCapture', s, byref(g))")
    guest("cu('cuGraphInstantiateWithFlags', byref(x), g, 0)")
    assert place.used() == CONTEXT
    guest("q = alloc(400)")
    assert guest.refused("cu('cuGraphLaunch', x, s)") == OUT_OF_MEMORY
    guest("free(q); cu('cuGraphLaunch', x, s)")
    assert place.used() == CONTEXT + 600


def test_stack_limit(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); old = c_size_t(); cu('cuCtxGetLimit', byref(old), c_int(0))")
    assert guest.refused("cu('cuCtxSetLimit', c_int(0), c_size_t(1 << 18))") == OUT_OF_MEMORY
    guest("new = c_size_t(); cu('cuCtxGetLimit', byref(new), c_int(0))")
    assert guest("new.value == old.value")
    assert place.used() == CONTEXT == machine.true_use(guest.pid)
    assert place.view().cards[0].overshoots == 1
    guest("cu('cuCtxSetLimit', c_int(0), c_size_t(4096))")
    assert CONTEXT < place.used() == machine.true_use(guest.pid) <= LIMIT


HEAP = "module = c_void_p(); cu('cuModuleLoadData', byref(module), c_char_p(b'//hamisim heap kernels=work'))"
HEAP_KERNEL = "work = c_void_p(); cu('cuModuleGetFunction', byref(work), module, c_char_p(b'work'))"


def set_heap(mib: int) -> str:
    return f"cu('cuCtxSetLimit', c_int(2), c_size_t({mib} * MIB))"


def test_the_kernels_heap_is_charged_when_it_is_promised(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start()")
    assert guest.refused(set_heap(900)) == OUT_OF_MEMORY
    assert place.view().cards[0].overshoots == 0
    guest(set_heap(600))
    assert machine.true_use(guest.pid) == CONTEXT
    assert place.used() == CONTEXT + 600
    assert guest.refused("alloc(400)") == OUT_OF_MEMORY
    guest(set_heap(500))
    assert place.used() == CONTEXT + 500
    guest("p = alloc(380)")
    # the driver takes it at the launch, and it is there once
    guest(f"{HEAP}; {HEAP_KERNEL}; launch(work)")
    assert machine.true_use(guest.pid) == CONTEXT + 880
    assert guest.refused("alloc(20)") == OUT_OF_MEMORY
    assert place.used() == CONTEXT + 880
    guest("free(p); alloc(390)")
    assert place.used() == CONTEXT + 890 == machine.true_use(guest.pid)
    assert place.view().cards[0].peak <= LIMIT
    assert machine.peak() <= LIMIT
    guest("cu('cuDevicePrimaryCtxReset_v2', c_int(0))")
    assert place.used() == 0


def test_a_heap_that_is_never_used_goes_with_its_context(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest(f"start(); {set_heap(600)}; take('cuModuleLoadData', 100)")
    assert place.used() == CONTEXT + 700
    guest("cu('cuDevicePrimaryCtxReset_v2', c_int(0)); context(); alloc(880)")
    assert place.used() == CONTEXT + 880 == machine.true_use(guest.pid)


def test_a_library_too_big_is_unloaded_and_its_handles_stay_dead(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); lib = library(2000); k = kernel_of(lib)")
    for _ in range(2):
        assert guest.refused("launch(k)") == OUT_OF_MEMORY
        assert guest.refused("f = c_void_p(); cu('cuKernelGetFunction', byref(f), k)") == OUT_OF_MEMORY
    assert guest.refused("kernel_of(lib)") == OUT_OF_MEMORY
    assert place.view().cards[0].overshoots == 1
    guest("cu('cuLibraryUnload', lib)")
    guest("small = library(100); launch(kernel_of(small)); launch(kernel_of(small))")
    assert place.used() == CONTEXT + 100 == machine.true_use(guest.pid)


def test_destroying_a_context_gives_back_what_was_allocated_in_it(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("init(); c = c_void_p(); cu('cuCtxCreate_v2', byref(c), c_uint(0), c_int(0))")
    for way in ("cuMemAlloc_v2", "cuArrayCreate_v2", "cuModuleLoadData"):
        guest(f"take({way!r}, 100)")
    assert place.used() == CONTEXT + 300
    guest("cu('cuCtxDestroy_v2', c)")
    assert place.used() == 0


@pytest.mark.parametrize("call", ["cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxRelease_v2"])
def test_losing_the_primary_context_gives_everything_back(machine: Machine, call: str):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); alloc(500)")
    guest(f"cu({call!r}, c_int(0))")
    assert place.used() == 0


def test_a_context_that_does_not_fit_is_refused(machine: Machine):
    place = machine.slice(150)
    guest = place.guest()
    guest("start()")
    second = place.guest()
    assert second.refused("start()") == OUT_OF_MEMORY
    assert place.used() == CONTEXT
    assert machine.true_use(second.pid) == 0


# ---- nothing that takes VRAM is left out of this file ------------------------------------------

TAKING_FILES = {"memory.c", "array.c", "pool.c", "vmm.c", "graph.c", "context.c", "module.c", "launch.c", "binding.c"}
# free, ask, or move a charge; tested by name above and elsewhere
NOT_TAKING = re.compile(
    "Free|Destroy|Release|Unmap|Unload|Detach|Reset|Trim|cuMemMap$|Retain|Export|Import|ExecUpdate|Peer|PoolCreate"
    "|SetLimit|cuModuleGet|cuFuncLoad|Bind|Unbind|SetMemPool|GreenCtx"
)


def test_every_hooked_call_that_takes_vram_has_its_way(machine: Machine):
    taking = {
        name
        for name, judgement in generator.read_judgements(JUDGEMENTS)["cuda"].items()
        if judgement.hooked and judgement.where in TAKING_FILES and not NOT_TAKING.search(name)
    }
    missing = sorted(taking - set(ALL))
    outsider = machine.outsider()
    outsider("start()")
    # those that the simulated card doesn't have; one that it learns is missing here at once
    answers = {name: outsider(f"libcuda().{name}({', '.join(['None'] * 12)})") for name in missing}
    assert {name for name, code in answers.items() if code != NOT_SUPPORTED} == set()
