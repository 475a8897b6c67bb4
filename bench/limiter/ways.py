"""The ways past a VRAM limit, how one is run, and what is said of it.  What each does is in ways/*.c."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import IO

from .column import RAW, Column, Shape
from .outside import Outside, Seen
from .programs import Programs
from .talk import Budget, GoneError, HangError, Talker

OUT_OF_MEMORY = 2
SECONDS = 25.0  # after which a way hangs
NO_TIME = "no time was left"
UNDO_MS = 10  # what can't be known beforehand must be undone in this time
USABLE_PERCENT = 98


class Kind(Enum):
    """What a way is about."""

    CAP = "the card's own figure stays within the limit"
    LEDGER = "what was granted stays within the limit: the card shows no figure of such memory"
    USABLE = f"{USABLE_PERCENT} % of the limit can be had, and no more than all"
    RETURNS = "what was given back, or a dead process held, can be had again"


class Verdict(str, Enum):
    """What was seen; the value is what the table says."""

    HELD = "held"
    PASSED = "PASSED"
    REFUSED = "FALSE REFUSAL"
    BROKEN = "BREAKS"
    HANGS = "HANGS"
    NEEDS_MOUNT = "needs the mounted slice"
    NOTHING = "shows nothing here"
    LEFT_OUT = "left out"


FAILURES = (Verdict.PASSED, Verdict.REFUSED, Verdict.BROKEN, Verdict.HANGS)


@dataclass(frozen=True)
class Way:
    """One way past a limit.

    Attributes:
        name: as the program knows it.
        by_environment: it works by what it does to the environment, where a preloaded limiter may live.
        beyond: no preloaded library can catch it; shown, not judged.
    """

    name: str
    title: str
    kind: Kind = Kind.CAP
    program: str = "ways"
    by_environment: bool = False
    beyond: bool = False


@dataclass
class Try:
    """One way, tried under one column.  Amounts in MiB."""

    verdict: Verdict = Verdict.LEFT_OUT
    held: int | None = None
    granted: int | None = None
    expected: int | None = None
    refusal: str = ""
    code: int = 0
    seen: Seen | None = None
    note: str = ""
    lines: list[str] = field(default_factory=list)


WAYS: Sequence[Way] = (
    Way("one_block", "cuMemAlloc, one block of more than the slice"),
    Way("blocks_of_64m", "cuMemAlloc, blocks of 64 MiB"),
    Way("blocks_of_2m", "cuMemAlloc, blocks of 2 MiB: all of the slice can be had", Kind.USABLE),
    Way("small_blocks", "cuMemAlloc, blocks of 512 KiB"),
    Way("blocks_of_700k", "cuMemAlloc, blocks of 700 KiB, of which two take 2 MiB"),
    Way("blocks_of_1m_and_a_byte", "cuMemAlloc, 1 MiB + 1 byte, which takes 2 MiB"),
    Way("blocks_of_2m_and_a_byte", "cuMemAlloc, 2 MiB + 1 byte, which takes 4 MiB"),
    Way("pitch", "cuMemAllocPitch, rows of one byte"),
    Way("managed", "cuMemAllocManaged", Kind.LEDGER),
    Way("first_abi", "cuMemAlloc of the first, 32-bit ABI"),
    Way("pool_default", "cuMemAllocAsync, the default pool"),
    Way("pool_per_thread", "cuMemAllocAsync_ptsz"),
    Way("pool_own", "cuMemAllocFromPoolAsync, a pool of one's own"),
    Way("pool_retained", "a pool that keeps what was freed, then cuMemAlloc"),
    Way("vmm_create", "cuMemCreate, never mapped"),
    Way("vmm_map_and_release", "cuMemCreate, map, release the handle"),
    Way("vmm_retain", "cuMemCreate, map, retain, release, unmap"),
    Way("vmm_import", "cuMemCreate in a process that dies, imported by another"),
    Way("vmm_descriptor", "cuMemCreate, exported, released: a descriptor keeps it", Kind.LEDGER),
    Way("external_memory", "cuImportExternalMemory of a process that dies"),
    Way("external_memory_own", "cuImportExternalMemory of what the same process exported", Kind.LEDGER),
    Way("ipc_open", "cuIpcOpenMemHandle of a process that dies"),
    Way("array_2d", "cuArrayCreate"),
    Way("small_arrays", "cuArrayCreate, 4,000 of 16 KiB"),
    Way("array_3d", "cuArray3DCreate"),
    Way("mipmap", "cuMipmappedArrayCreate"),
    Way("sparse_array", "cuMemMapArrayAsync to sparse arrays, the handles released"),
    Way("sparse_mipmap", "cuMemMapArrayAsync to sparse mipmaps, the handles released"),
    Way("sparse_streaming", "cuMemMapArrayAsync, twice the slice by turns to one array", Kind.RETURNS),
    Way("deferred_array", "cuMemMapArrayAsync to arrays of deferred mapping"),
    Way("module_data", "cuModuleLoadData, static data"),
    Way("library_function", "cuLibraryLoadData, static data taken at cuKernelGetFunction"),
    Way("library_launch", "cuLibraryLoadData, static data taken at the first launch"),
    Way("library_contexts", "cuLibraryLoadData, the same static data in many contexts"),
    Way("library_variable", "cuLibraryLoadData, static data taken at cuLibraryGetGlobal"),
    Way("stack", "cuCtxSetLimit, stack"),
    Way("heap", "cuCtxSetLimit, malloc heap, and a kernel that uses it"),
    Way("printf_fifo", "cuCtxSetLimit, printf buffer, and a kernel that uses it"),
    Way("graph_node", "cuGraphAddMemAllocNode"),
    Way("graph_again", "graphs that ran one after the other, launched again at once"),
    Way("graph_capture", "cuMemAllocAsync captured into a graph"),
    Way("contexts", "cuCtxCreate, many contexts"),
    Way("green_context", "cuMemAlloc in a green context, and after it"),
    Way("contexts_of_children", "many processes with nothing but a context"),
    Way("second_card", "cuMemAlloc on a second card that the first can reach"),
    Way("peer_both", "cuMemAlloc on two cards that reach each other"),
    Way("peer_pool", "cuMemAllocFromPoolAsync from another card's pool"),
    Way("peer_physical", "cuMemCreate on a second card, mapped for the first"),
    Way("racing_children", "8 processes at once, from nothing"),
    Way("racing_rounds", "processes race for a block of which one fits, 100 rounds"),
    Way("racing_threads", "8 threads at once"),
    Way("kill_a_holder", "kill -9 of a holder: its share comes back", Kind.RETURNS),
    Way("kill_one_of_three", "kill -9 of one of three, the others fill up"),
    Way("kill_storm", "kill -9 amid allocations, 9 times: the share comes back", Kind.RETURNS),
    Way("fork_before", "fork before cuInit, parent and child"),
    Way("pid_namespace", "a child in a PID namespace of its own, beside its parent"),
    Way("fork_and_exec", "a started program beside its parent"),
    Way("by_dlsym", "dlsym"),
    Way("by_dlvsym", "dlsym found by dlvsym"),
    Way("by_dlsym_of_dlsym", "dlsym found by dlsym"),
    Way("by_rtld_next", "dlsym(RTLD_NEXT), twice"),
    Way("by_proc_address", "cuGetProcAddress"),
    Way("by_its_own_address", "cuGetProcAddress found by cuGetProcAddress"),
    Way("plugin_deepbind", "a plugin opened with RTLD_DEEPBIND"),
    Way("plugin_namespace", "a plugin opened by dlmopen"),
    Way("copied_driver", "a copy of libcuda under another name"),
    Way("cudart", "NVIDIA's runtime, linked statically: cudaMalloc", program="cudart"),
    Way("cudart_async", "NVIDIA's runtime, linked statically: cudaMallocAsync", program="cudart"),
    Way("empty_environment", "env -i", by_environment=True),
    Way("no_preload", "env -u LD_PRELOAD", by_environment=True),
    Way("limits_of_zero", "CUDA_DEVICE_MEMORY_LIMIT=0", by_environment=True),
    Way("limits_far_higher", "CUDA_DEVICE_MEMORY_LIMIT=100g", by_environment=True),
    Way("another_usage_file", "CUDA_DEVICE_MEMORY_SHARED_CACHE, a fresh file and limits of 0", by_environment=True),
    Way("another_slice", "HAMI_SLICE_DIR=/nonexistent", by_environment=True),
    Way("control_disabled", "CUDA_DISABLE_CONTROL=true", by_environment=True),
    Way("blind_nvml", "LD_LIBRARY_PATH with a libnvidia-ml that answers nothing"),
    Way("visible_by_index", "CUDA_VISIBLE_DEVICES=0"),
    Way("visible_by_uuid", "CUDA_VISIBLE_DEVICES=GPU-…, the UUID"),
    Way("visible_by_part", "CUDA_VISIBLE_DEVICES, the first part of the UUID"),
    Way("static", "a static program", program="static", beyond=True),
)
CONTEXT = Way("context_alone", "a context by itself")


@dataclass(frozen=True)
class Ground:
    """What ways are tried on; `limit` and `context`, what one context takes, in MiB."""

    outside: Outside
    programs: Programs
    limit: int
    context: int
    log: IO[bytes]


def try_way(way: Way, shape: Shape, ground: Ground, budget: Budget) -> Try:
    """Run a way in a fresh slice and look at the card while it holds what it got."""
    if way.program in ground.programs.missing:
        return Try(note=ground.programs.missing[way.program])
    if budget.spent:
        return Try(note=NO_TIME)
    shape.fresh_slice(ground.limit)
    until = budget.until(SECONDS)
    outside, limit = ground.outside, ground.limit
    command = shape.command([ground.programs.path(way.program), way.name, str(limit), str(ground.context)])
    result = Try()
    program = Talker(command, environment=shape.environment(), log=ground.log)
    try:
        with outside.watch(program.pid, limit=limit) as watch:
            while (line := program.hear(until=until)) != "hold":
                result.lines.append(line)
                _read(line, result)
            result.held = outside.held(program.pid)
        result.seen = watch.seen
        program.say("go")
        program.wait(seconds=10)
        result.verdict = Verdict.HELD
    except HangError:
        result.verdict = Verdict.LEFT_OUT if budget.spent else Verdict.HANGS
        result.note = NO_TIME if budget.spent else f"no end after {SECONDS:g} s"
    except GoneError as error:
        result.verdict = Verdict.BROKEN
        result.note = result.note or str(error)
    finally:
        program.end()
    return result


def judge(way: Way, column: Column, result: Try, *, limit: int, raw: Try | None, mounted: bool) -> Verdict:
    """What a try shows, beside the same without a limiter; `mounted`: the limiter doesn't live in the environment."""
    if column.key != RAW and result.verdict is Verdict.BROKEN and raw and raw.verdict is Verdict.BROKEN:
        return Verdict.NOTHING
    if result.verdict is not Verdict.HELD:
        return result.verdict
    assert result.held is not None
    assert result.granted is not None
    if column.key == RAW:
        return Verdict.HELD
    held = result.granted if way.kind is Kind.LEDGER else result.held
    above = result.seen is not None and result.seen.above_ms > UNDO_MS
    if held > limit or above:
        return Verdict.NEEDS_MOUNT if way.by_environment and not mounted else Verdict.PASSED
    return _judge_within(way, result, held=held, limit=limit, raw=raw)


def _judge_within(way: Way, result: Try, *, held: int, limit: int, raw: Try | None) -> Verdict:
    if way.kind is Kind.RETURNS:
        return Verdict.HELD if (result.granted or 0) >= (result.expected or 0) else Verdict.REFUSED
    if way.kind is Kind.USABLE and held < limit * USABLE_PERCENT // 100:
        return Verdict.REFUSED
    if raw is not None and not _shows(way, raw, limit=limit):
        return Verdict.NOTHING
    return Verdict.HELD if result.code in (0, OUT_OF_MEMORY) else Verdict.BROKEN


def _shows(way: Way, raw: Try, *, limit: int) -> bool:
    """Whether the way goes past the limit where there is none; else it proves nothing of a limiter."""
    got = raw.granted if way.kind is Kind.LEDGER else raw.held
    return got is not None and got > limit


def _read(line: str, result: Try) -> None:
    word, _, rest = line.partition(" ")
    if word == "granted":
        result.granted = int(rest)
    elif word == "expect":
        result.expected = int(rest)
    elif word == "refused":
        code, _, call = rest.partition(" ")
        result.code, result.refusal = int(code), call
    elif word in ("note", "broken"):
        result.note = rest
