"""The bench of the limiter on the simulated card: it runs whole, and it can tell a limiter from none."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.limiter.column import OURS, RAW, Column
from bench.limiter.costs import COSTS, TRAININGS, Estimate, Measured, estimate
from bench.limiter.outside import Seen
from bench.limiter.programs import Programs, build_programs
from bench.limiter.report import Results, render, what_was_added
from bench.limiter.talk import GoneError, HangError, Talker
from bench.limiter.ways import CONTEXT, WAYS, Kind, Try, Verdict, Way, judge
from hami_hub.native import NativeMissingError, limiter_path, sim_folder

ROOT = Path(__file__).resolve().parents[2]
SLICE = 4000
pytestmark = pytest.mark.timeout(500)
# of different subjects, and none that is undone afterwards: how long that takes is not for tests
SOME_WAYS = ("blocks_of_2m", "pool_own", "vmm_map_and_release", "by_proc_address", "kill_a_holder", "visible_by_index")


def headers() -> Path:
    found = subprocess.run(
        [sys.executable, ROOT / "native/tools/find_headers.py"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(f"The CUDA headers are not installed. {found.stderr.strip()}")
    return Path(found.stdout.strip())


@pytest.fixture(scope="module")
def limiter() -> Path:
    try:
        return limiter_path()
    except NativeMissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def programs(limiter: Path, tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return build_programs(tmp_path_factory.mktemp("programs"), include=headers(), sim=sim_folder())


def run_bench(output: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.limiter.run", "--simulated", "--output", output, *options]
    return subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)


def test_the_bench_runs_whole(limiter: Path, tmp_path: Path) -> None:
    only = [word for name in (*SOME_WAYS, "mem_get_info", "init") for word in ("--only", name)]
    done = run_bench(tmp_path, *only)
    assert done.returncode == 0, done.stdout + done.stderr
    [folder] = tmp_path.iterdir()
    assert folder.name.endswith("-tesla-t4-simulated-limiter")
    report = (folder / "report.md").read_text()
    assert f"| ours | {len(SOME_WAYS)} | {len(SOME_WAYS)} | 0 | 0 | 0 | 0 | 0 |" in report
    assert (
        "cuMemAlloc, blocks of 2 MiB: all of the slice can be had | 6104 MiB | held, 4000 MiB, cuMemAlloc: 2 |"
        in report
    )
    assert "| cuMemGetInfo | " in report
    assert "| train | PyTorch's runtime runs on NVIDIA's driver only |" in report
    raw = (folder / "raw.log").read_text()
    assert all(f"## way {name}, {column}" in raw for name in SOME_WAYS for column in ("no limiter", "ours"))


def test_a_limiter_that_limits_nothing_fails(limiter: Path, programs: Programs, tmp_path: Path) -> None:
    done = run_bench(tmp_path, "--ours", programs.path("plugin.so"), "--parts", "ways", "--only", "blocks_of_64m")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILS: cuMemAlloc, blocks of 64 MiB" in done.stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--limiter", "/nowhere/libvgpu.so"), "There is no file /nowhere/libvgpu.so"),
        (("--sim", "/nowhere"), "There is no card here"),
        (("--cuda-include", "/nowhere"), "ways can't be compiled"),
    ],
    ids=["no library", "no card", "no headers"],
)
def test_what_is_missing_is_said(limiter: Path, tmp_path: Path, options: tuple[str, ...], sentence: str) -> None:
    done = run_bench(tmp_path, *options)
    assert done.returncode == 2
    assert sentence.lower() in done.stderr.lower()
    assert not list(tmp_path.iterdir())


def test_the_table_and_the_program_know_the_same_ways(programs: Programs) -> None:
    listed = subprocess.run([programs.path("ways"), "--list"], capture_output=True, text=True, check=True)
    assert sorted(listed.stdout.split()) == sorted(w.name for w in (CONTEXT, *WAYS) if w.program == "ways")


WITHIN = Try(verdict=Verdict.HELD, held=4000, granted=3896, code=2)
ABOVE = Try(verdict=Verdict.HELD, held=4002, granted=3898, code=2)
RAW_ABOVE = Try(verdict=Verdict.HELD, held=6104, granted=6000)
RAW_WITHIN = Try(verdict=Verdict.HELD, held=104, granted=0)


def seen_above(ms: float) -> Try:
    return Try(verdict=Verdict.HELD, held=3900, granted=3796, code=2, seen=Seen(peak=4500, above_ms=ms))


@pytest.mark.parametrize(
    ("kind", "tried", "raw", "verdict"),
    [
        (Kind.CAP, WITHIN, RAW_ABOVE, Verdict.HELD),
        (Kind.CAP, ABOVE, RAW_ABOVE, Verdict.PASSED),
        (Kind.CAP, seen_above(9), RAW_ABOVE, Verdict.HELD),
        (Kind.CAP, seen_above(11), RAW_ABOVE, Verdict.PASSED),
        (Kind.CAP, WITHIN, RAW_WITHIN, Verdict.NOTHING),
        (Kind.CAP, Try(verdict=Verdict.HELD, held=104, granted=0, code=500), RAW_ABOVE, Verdict.BROKEN),
        (Kind.CAP, Try(verdict=Verdict.HANGS), RAW_ABOVE, Verdict.HANGS),
        (Kind.CAP, Try(verdict=Verdict.BROKEN), RAW_ABOVE, Verdict.BROKEN),
        (Kind.CAP, Try(verdict=Verdict.BROKEN), Try(verdict=Verdict.BROKEN), Verdict.NOTHING),
        (Kind.LEDGER, Try(verdict=Verdict.HELD, held=104, granted=4032), RAW_ABOVE, Verdict.PASSED),
        (Kind.USABLE, Try(verdict=Verdict.HELD, held=3900, granted=3796, code=2), RAW_ABOVE, Verdict.REFUSED),
        (Kind.RETURNS, Try(verdict=Verdict.HELD, held=2500, granted=2400, expected=2400), RAW_ABOVE, Verdict.HELD),
        (Kind.RETURNS, Try(verdict=Verdict.HELD, held=100, granted=0, expected=2400), RAW_ABOVE, Verdict.REFUSED),
    ],
)
def test_verdicts(kind: Kind, tried: Try, raw: Try, verdict: Verdict) -> None:
    judged = judge(Way("way", "a way", kind), Column(OURS, "ours", None), tried, limit=SLICE, raw=raw, mounted=True)
    assert judged is verdict


@pytest.mark.parametrize(("mounted", "verdict"), [(True, Verdict.PASSED), (False, Verdict.NEEDS_MOUNT)])
def test_the_environment_may_lift_only_a_preloaded_limiter(mounted: bool, verdict: Verdict) -> None:
    way = Way("way", "a way", by_environment=True)
    assert judge(way, Column(OURS, "ours", None), ABOVE, limit=SLICE, raw=RAW_ABOVE, mounted=mounted) is verdict


def test_what_a_limiter_adds() -> None:
    in_one_process = Measured(through=[200.0, 210.0, 230.0], direct=[100.0, 105.0, 100.0])
    assert what_was_added(in_one_process, None) == Estimate(105.0, 100.0, 130.0)
    starts, raw = Measured(through=[7e6, 9e6]), Measured(through=[5e6, 5e6, 6e6])
    assert what_was_added(starts, raw) == Estimate(3e6, 2e6, 4e6)
    assert what_was_added(Measured(failure="hangs"), raw) is None


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [([5.0], 5, 5), ([1.0, 9.0], 1, 9), (list(map(float, range(20))), 5, 14), (list(map(float, range(100))), 40, 59)],
)
def test_an_interval_gets_narrower_with_more_rounds(values: list[float], low: float, high: float) -> None:
    found = estimate(values)
    assert (found.low, found.high) == (low, high)
    assert low <= found.median <= high


PASSING_BY = """
import ctypes, sys
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

bypass, cuda = ctypes.CDLL(sys.argv[1]), ctypes.CDLL("libcuda.so.1")
context, pointer = c_void_p(), c_uint64()

def alloc():
    return cuda.cuMemAlloc_v2(byref(pointer), c_size_t(2000 << 20))

wrappers = bypass.bypass_open()
assert cuda.cuInit(0) == cuda.cuDevicePrimaryCtxRetain(byref(context), c_int(0)) == cuda.cuCtxSetCurrent(context) == 0
answers = [alloc()]
for past in (True, False):
    bypass.bypass(past)
    answers.append(alloc())
print(wrappers, *answers)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="The way past a limiter is written in x86-64's jumps.")
def test_a_limiter_is_passed_by_and_back(limiter: Path, programs: Programs, tmp_path: Path) -> None:
    environment = {
        "LD_LIBRARY_PATH": str(sim_folder()),
        "HAMI_SIM_DIR": str(tmp_path),
        "HAMI_SIM_PROFILE": "t4",
        "CUDA_DEVICE_MEMORY_LIMIT": "1000m",
        "ACTIVE_OOM_KILLER": "false",  # it would end what takes memory past the limiter
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": str(tmp_path / "slice"),
    }

    def answers(**more: str) -> list[int]:
        command = [sys.executable, "-c", PASSING_BY, programs.path("bypass.so")]
        done = subprocess.run(
            list(map(str, command)), env={**environment, **more}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return list(map(int, done.stdout.split()))

    wrappers, *limited = answers(LD_PRELOAD=str(limiter))
    assert wrappers > 200
    assert limited == [2, 0, 2]
    assert answers() == [0, 0, 0, 0]


ONE_TRAINING = TRAININGS[0][1][0]


def report_of(measured: dict[str, Measured]) -> str:
    """Of the first cost and the first training, both with these figures."""
    columns = [Column(RAW, "no limiter", None), Column(OURS, "ours", None)]
    results = Results(date="2026-01-02", card="Tesla T4", limit=SLICE, columns=columns)
    results.costs.append((COSTS[0], measured))
    results.trainings.append((ONE_TRAINING, measured))
    return render(results)


def test_a_report_marks_what_misses_its_goal() -> None:
    text = report_of({RAW: Measured(through=[100.0], direct=[100.0]), OURS: Measured(through=[2000.0], direct=[100.0])})
    assert "**+1,900 ns (+1,900 ns to +1,900 ns): over**" in text
    assert "| 500,000.0 | 10,000,000.0 | **5.00 % (5.00 to 5.00): under** |" in text


def test_a_report_says_where_the_rounds_differ_too_much_to_tell() -> None:
    raw = Measured(through=[1000.0] * 3, direct=[1000.0] * 3)
    text = report_of({RAW: raw, OURS: Measured(through=[1000.0, 2100.0, 3000.0], direct=[1000.0] * 3)})
    assert "| +1,100 ns (+0.0 ns to +2,000 ns): over or not, can't be told |" in text
    assert "| 47.62 % (33.33 to 100.00): under or not, can't be told |" in text


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talker]:
    with (tmp_path / "log").open("wb") as log:
        talker = Talker(["sh", "-c", "while read -r line; do echo $line; done; exit 3"], environment={}, log=log)
        yield talker
        talker.end()


def test_a_program_that_says_nothing_is_ended(talk: Talker) -> None:
    talk.say("first")
    assert talk.hear(until=time.monotonic() + 60) == "first"
    with pytest.raises(HangError):
        talk.hear(until=time.monotonic())
    assert not Path(f"/proc/{talk.pid}").exists()


def test_a_program_that_ends_is_told_from_one_that_hangs(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        talker = Talker(["sh", "-c", "exit 3"], environment={}, log=log)
        with pytest.raises(GoneError, match="ended with code 3"):
            talker.hear(until=time.monotonic() + 60)
