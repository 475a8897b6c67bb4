"""The allocator without a hub: the line, the books and the slice directories stay in step, whatever happens when."""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hami_hub.cards import NoCardsError
from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.line import Turn, why_waiting
from hami_hub.core.messages import in_line
from hami_hub.core.profiles import default_profiles
from hami_hub.core.slices import Placement, SliceId, SliceRequest
from hami_hub.core.units import Mib, Percent
from hami_hub.mounts import file_system
from hami_hub.slicepage import layout, read_placement, read_slice
from hami_hub.spawner import allocator as allocator_module
from hami_hub.spawner import leftovers, processes
from hami_hub.spawner.allocator import Allocator, NoRoomError, PlacedSlice
from hami_hub.spawner.slice_root import SliceRoot, SliceRootError, default_slice_root

T4 = Card(uuid=CardUuid("GPU-00000000-0000-0000-0000-000000000001"), index=0, model="Tesla T4", vram=Mib(15360))
WHOLE = SliceRequest()
EIGHT = SliceRequest(vram=Mib(8192), cores=Percent(50))
TWO = SliceRequest(vram=Mib(2048))
ALICE, BOB, CAROL = (SliceId(f"{name}/") for name in ("alice", "bob", "carol"))
LOG = logging.getLogger("test")


@pytest.fixture
def shm() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="hami-test-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def root(shm: Path) -> SliceRoot:
    return SliceRoot(shm / "slices")


@pytest.fixture
def allocator(root: SliceRoot) -> Allocator:
    return Allocator(root, lambda: (T4,), LOG)


class Person:
    """One who asks for a slice, and remembers what they were told."""

    def __init__(
        self, allocator: Allocator, holder: SliceId, request: SliceRequest | None, patience: float = 60
    ) -> None:
        self.told: list[str] = []
        self.task = asyncio.ensure_future(
            allocator.acquire(holder, request, tenant=None, patience=patience, on_wait=self._tell)
        )

    def _tell(self, turn: Turn | None) -> None:
        words = in_line(turn.position, why_waiting(turn, time.time())) if turn else "Your last server is still ending."
        self.told.append(words)

    async def waits(self) -> None:
        while not self.told:
            assert not self.task.done() or self.task.result()
            await asyncio.sleep(0.001)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  every step of the loop is looked at
        await asyncio.sleep(0)


def folders(allocator: Allocator) -> list[str]:
    return sorted(path.name.rpartition("-")[0] for path in allocator.root.directories())


def taken(allocator: Allocator) -> tuple[int, int]:
    state = allocator.states[0]
    return state.used_vram, state.slices


async def test_a_slice_has_its_pages_and_is_in_the_books(allocator: Allocator) -> None:
    placed = await Person(allocator, ALICE, EIGHT).task
    page = read_slice(placed.directory)
    assert (page.name, page.cards[0].uuid, page.cards[0].limit, page.cards[0].cores) == ("alice/", T4.uuid, 8192, 50)
    assert read_placement(placed.directory) == placed.placement
    assert allocator.describe(placed) == "8 GiB · 50 % of a Tesla T4"
    assert taken(allocator) == (8192, 1)
    await allocator.release(placed)
    assert not placed.directory.exists()
    assert taken(allocator) == (0, 0)


async def test_a_server_without_a_gpu_gets_a_slice_of_no_card(allocator: Allocator) -> None:
    placed = await Person(allocator, ALICE, None).task
    assert read_slice(placed.directory).cards == ()
    assert placed.placement == Placement(())
    await allocator.release(placed)
    assert folders(allocator) == []


async def test_those_who_wait_are_served_in_order_and_told_where_they_stand(allocator: Allocator) -> None:
    first = await Person(allocator, ALICE, EIGHT).task
    whole = Person(allocator, BOB, WHOLE)
    await whole.waits()
    small = Person(allocator, CAROL, TWO)
    await small.waits()
    assert whole.told == [
        "You are 1st in line. The whole card is not free now: the Tesla T4 is shared by 1 other server. "
        "Wait until a server stops, or pick another profile."
    ]
    assert small.told == ["You are 2nd in line. There is room, but 1 server ahead of you waits for it."]
    await allocator.release(first)
    second = await whole.task
    await asyncio.sleep(0)
    assert small.told[-1].startswith("You are 1st in line. 2 GiB is not free now: one server has all of the Tesla T4.")
    await allocator.release(second)
    await small.task
    assert taken(allocator) == (2048, 1)


async def test_the_form_sees_the_line(allocator: Allocator) -> None:
    await Person(allocator, ALICE, EIGHT).task
    assert {offer.availability.value for offer in allocator.offers(default_profiles()[:2], ())} == {"now"}
    waiter = Person(allocator, BOB, WHOLE)
    await waiter.waits()
    assert [offer.availability.value for offer in allocator.offers(default_profiles()[:2], ())] == ["now", "waits"]
    assert allocator.states_for_newcomer[0].free_vram == 0
    assert allocator.states[0].free_vram == 15360 - 8192
    waiter.task.cancel()


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (SliceRequest(vram=Mib(20000)), "20000 MiB can never fit here: the Tesla T4 has 15 GiB in all"),
        (SliceRequest(cards=2), "2 whole cards can never fit here"),
    ],
    ids=["too much", "too many cards"],
)
async def test_what_can_never_fit_is_refused_at_once(allocator: Allocator, request_: SliceRequest, text: str) -> None:
    person = Person(allocator, ALICE, request_)
    with pytest.raises(NoRoomError) as refused:
        await person.task
    assert refused.value.never
    assert str(refused.value).startswith(text)
    assert person.told == []  # nobody is told a place in a line that leads nowhere
    assert folders(allocator) == []
    assert not allocator._line


async def test_patience_ends_with_the_reason_and_leaves_nothing(allocator: Allocator) -> None:
    await Person(allocator, ALICE, WHOLE).task
    for patience, text in ((0, ""), (0.01, "2 GiB did not come free in 0 seconds. ")):
        with pytest.raises(NoRoomError) as refused:
            await Person(allocator, BOB, TWO, patience=patience).task
        assert not refused.value.never
        assert str(refused.value).startswith(f"{text}2 GiB is not free now: one server has all of the Tesla T4.")
    assert folders(allocator) == ["alice"]
    assert not allocator._line


@pytest.mark.parametrize("steps", range(12))
async def test_cancelled_at_any_step_nothing_is_left(allocator: Allocator, steps: int) -> None:
    held = await Person(allocator, ALICE, WHOLE).task
    waiter = Person(allocator, BOB, EIGHT)
    behind = Person(allocator, CAROL, EIGHT)
    for step in range(steps):
        await asyncio.sleep(0)
        if step == 5:
            allocator.release(held)
    waiter.task.cancel()
    [end] = await asyncio.gather(waiter.task, return_exceptions=True)
    if isinstance(end, PlacedSlice):
        allocator.release(end)
    else:
        assert isinstance(end, asyncio.CancelledError)
    if steps <= 5:
        allocator.release(held)
    placed = await behind.task
    assert folders(allocator) == ["carol"] or await allocator.release(held) is None
    assert taken(allocator) == (8192, 1)
    assert not allocator._line
    assert placed.directory.exists()


async def test_cancelled_in_the_very_moment_of_being_served_the_next_one_is(allocator: Allocator) -> None:
    held = await Person(allocator, ALICE, WHOLE).task
    waiter, behind = Person(allocator, BOB, WHOLE), Person(allocator, CAROL, WHOLE)
    await waiter.waits()
    await behind.waits()
    ending = allocator.release(held)
    await until(lambda: allocator._line[BOB].placed.done())
    waiter.task.cancel()
    placed = await behind.task
    assert waiter.task.cancelled()
    await ending
    assert placed.holder == CAROL
    assert folders(allocator) == ["carol"]
    assert taken(allocator) == (15360, 1)


async def test_twenty_at_once_never_over_commit(allocator: Allocator) -> None:
    requests = [
        SliceRequest(vram=Mib(1024 * (1 + number % 5)), cores=Percent(10 * (number % 4))) for number in range(20)
    ]
    started: list[SliceId] = []

    async def use(number: int) -> None:
        placed = await Person(allocator, SliceId(f"user{number}/"), requests[number]).task
        assert allocator.states[0].used_vram <= 15360
        assert allocator.states[0].used_cores <= 100
        started.append(placed.holder)
        await asyncio.sleep(0.001 * (number % 3))
        await allocator.release(placed)

    await asyncio.gather(*(use(number) for number in range(20)))
    assert len(started) == 20
    assert started[0] == "user0/"
    assert taken(allocator) == (0, 0)
    assert folders(allocator) == []


# --- cards that fail ------------------------------------------------------------------------------------------------


async def test_a_driver_that_fails_stops_new_slices_and_no_old_ones(
    root: SliceRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocator_module, "_CARDS_AGE", 0.0)
    answers: list[Callable[[], tuple[Card, ...]]] = [lambda: (T4,)]
    allocator = Allocator(root, lambda: answers[-1](), LOG)
    placed = await Person(allocator, ALICE, TWO).task

    def fail() -> tuple[Card, ...]:
        raise NoCardsError("The driver is away. Load it.", driver_missing=True)

    answers.append(fail)
    with pytest.raises(NoRoomError, match="the Tesla T4 is out of order"):
        await Person(allocator, BOB, TWO).task
    assert allocator.problem == "The driver is away. Load it."
    assert taken(allocator) == (2048, 1)
    answers.append(lambda: (T4,))
    await Person(allocator, BOB, TWO).task
    assert allocator.problem == ""
    await allocator.release(placed)


async def test_without_a_card_one_is_told_so(root: SliceRoot) -> None:
    allocator = Allocator(root, lambda: (), LOG)
    with pytest.raises(NoRoomError, match="This machine has no GPU"):
        await Person(allocator, ALICE, TWO).task
    await Person(allocator, BOB, None).task


async def test_a_card_that_falls_ill_and_comes_back_serves_those_who_wait(
    root: SliceRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocator_module, "_CARDS_AGE", 0.01)
    cards = [(T4,)]
    allocator = Allocator(root, lambda: cards[-1], LOG)
    held = await Person(allocator, ALICE, WHOLE).task
    waiter = Person(allocator, BOB, WHOLE)
    await waiter.waits()
    cards.append((replace(T4, healthy=False),))
    await until(lambda: "out of order" in waiter.told[-1])
    await allocator.release(held)
    assert not waiter.task.done()
    cards.append((T4,))
    await waiter.task


async def test_a_driver_that_hangs_does_not_hang_the_hub(root: SliceRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator_module, "_CARDS_PATIENCE", 0.01)
    asked: list[int] = []
    answers = threading.Event()

    def hang() -> tuple[Card, ...]:
        asked.append(1)
        assert answers.wait(60)
        return (T4,)

    allocator = Allocator(root, hang, LOG)
    with pytest.raises(NoRoomError, match="to see whether it hangs") as refused:
        await Person(allocator, ALICE, TWO).task
    assert not refused.value.never
    assert "hangs" in allocator.problem
    await allocator.refresh()
    assert asked == [1]
    answers.set()
    await until(lambda: not allocator.problem)
    await Person(allocator, ALICE, TWO).task


# --- what is left of servers ----------------------------------------------------------------------------------------

MAPPER = """
import mmap, os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "stubborn" else signal.SIG_DFL)
page = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 0)
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def start_process() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(page: Path, kind: str = "meek") -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", MAPPER, str(page), kind], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def claim(directory: Path, pid: int) -> None:
    """Write a process into the usage page, as the limiter does or a liar would."""
    with (directory / layout.USAGE_FILE).open("r+b") as file, mmap.mmap(file.fileno(), 0) as page:
        usage = layout.Usage.from_buffer(page)
        slot = usage.processes[usage.process_high]
        slot.owner = pid << 32
        usage.process_high += 1
        del slot, usage


@pytest.mark.parametrize("kind", ["meek", "stubborn"])
async def test_processes_that_outlive_their_server_are_ended_before_the_slice_is_free(
    allocator: Allocator, start_process: Callable[..., subprocess.Popen[str]], kind: str
) -> None:
    placed = await Person(allocator, ALICE, WHOLE).task
    kernel = start_process(placed.directory / layout.USAGE_FILE, kind)
    waiter = Person(allocator, BOB, WHOLE)
    await waiter.waits()
    ending = allocator.release(placed)
    await waiter.task
    assert kernel.poll() is not None or processes.mark(kernel.pid) is None
    await ending


async def test_processes_are_ended_also_where_more_was_to_be_done_and_failed(
    allocator: Allocator, start_process: Callable[..., subprocess.Popen[str]]
) -> None:
    async def fail() -> None:
        raise TimeoutError("the daemon hangs")

    placed = await Person(allocator, ALICE, WHOLE).task
    kernel = start_process(placed.directory / layout.USAGE_FILE)
    await allocator.release(placed, fail)
    assert processes.mark(kernel.pid) is None
    assert folders(allocator) == []


async def test_a_lie_in_the_usage_page_ends_nobody_else(
    allocator: Allocator, start_process: Callable[..., subprocess.Popen[str]]
) -> None:
    placed, other = [await Person(allocator, holder, TWO).task for holder in (ALICE, BOB)]
    neighbour = start_process(other.directory / layout.USAGE_FILE)
    for pid in (neighbour.pid, os.getpid(), 1):
        claim(placed.directory, pid)
    await allocator.release(placed)
    assert neighbour.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's page")
async def test_a_process_of_another_user_is_left_alone(
    allocator: Allocator, start_process: Callable[..., subprocess.Popen[str]]
) -> None:
    placed = await Person(allocator, ALICE, TWO).task
    page = placed.directory / layout.USAGE_FILE
    roots = start_process(page)
    os.chown(page, 65534, 65534)
    assert leftovers.find_leftovers(placed.directory) == frozenset()
    await allocator.release(placed)
    assert roots.poll() is None


@pytest.mark.parametrize("content", [b"", b"rubbish", bytes(10**6)], ids=["empty", "short", "long"])
async def test_a_damaged_usage_page_hides_nobody(
    allocator: Allocator, start_process: Callable[..., subprocess.Popen[str]], content: bytes
) -> None:
    placed = await Person(allocator, ALICE, TWO).task
    kernel = start_process(placed.directory / layout.USAGE_FILE)
    (placed.directory / layout.USAGE_FILE).write_bytes(content)
    await allocator.release(placed)
    assert processes.mark(kernel.pid) is None
    assert folders(allocator) == []


async def test_a_slice_counts_until_its_last_process_is_gone(
    allocator: Allocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = await Person(allocator, ALICE, WHOLE).task
    gone = asyncio.Event()
    monkeypatch.setattr(allocator_module, "end_leftovers", lambda directory, log: gone.wait())
    ending = allocator.release(placed)
    for _ in range(5):
        await asyncio.sleep(0)
    assert taken(allocator) == (15360, 1)
    assert allocator.release(placed) is ending
    gone.set()
    await ending
    assert taken(allocator) == (0, 0)
    await allocator.release(placed)


async def test_the_next_start_waits_for_the_end_of_the_last_one(
    allocator: Allocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocator_module, "_ENDING_SECONDS", 0.01)
    placed = await Person(allocator, ALICE, TWO).task
    gone = asyncio.Event()
    ending = allocator.release(placed, gone.wait)  # type: ignore[arg-type]
    again = Person(allocator, ALICE, TWO)
    await again.waits()
    assert again.told == ["Your last server is still ending."]
    gone.set()
    await again.task
    assert ending.done()


# --- a hub that died ------------------------------------------------------------------------------------------------


async def test_a_new_hub_keeps_what_runs_and_gives_back_the_rest(
    shm: Path, start_process: Callable[..., subprocess.Popen[str]]
) -> None:
    first = Allocator(SliceRoot(shm / "slices"), lambda: (T4,), LOG)
    kept, lost = [await Person(first, holder, EIGHT if holder == ALICE else TWO).task for holder in (ALICE, BOB)]
    kernel = start_process(lost.directory / layout.USAGE_FILE, "stubborn")
    first.root.close()

    second = Allocator(SliceRoot(shm / "slices"), lambda: (T4,), LOG)
    second.restore(kept)
    second.clear_strays()
    await second.refresh()
    assert taken(second) == (8192 + 2048, 2)
    whole = Person(second, CAROL, SliceRequest(vram=Mib(7000)))
    await whole.waits()
    await whole.task
    assert processes.mark(kernel.pid) is None
    assert folders(second) == ["alice", "carol"]


async def test_a_server_whose_hub_died_in_mid_spawn_is_ended(
    shm: Path, start_process: Callable[..., subprocess.Popen[str]]
) -> None:
    first = Allocator(SliceRoot(shm / "slices"), lambda: (T4,), LOG)
    placed = await Person(first, ALICE, TWO).task
    (shm / "unrelated").write_bytes(bytes(4096))
    server = start_process(shm / "unrelated")
    mark = processes.mark(server.pid)
    assert mark is not None
    leftovers.note_server(placed.directory, mark)
    first.root.close()
    second = Allocator(SliceRoot(shm / "slices"), lambda: (T4,), LOG)
    second.clear_strays()
    await asyncio.wait_for(asyncio.gather(*second._ending.values()), 60)
    assert processes.mark(server.pid) is None
    assert folders(second) == []


async def test_a_damaged_limits_page_of_a_stray_is_cleared(shm: Path) -> None:
    root = SliceRoot(shm / "slices")
    root.open()
    stray = root.path / "alice-0"
    stray.mkdir()
    (stray / layout.LIMITS_FILE).write_bytes(b"rubbish")
    allocator = Allocator(root, lambda: (T4,), LOG)
    allocator.clear_strays()
    await asyncio.wait_for(asyncio.gather(*allocator._ending.values()), 60)
    assert folders(allocator) == []


# --- the folder -----------------------------------------------------------------------------------------------------


async def test_a_folder_that_is_no_tmpfs_is_refused(tmp_path: Path) -> None:
    if file_system(tmp_path) in ("tmpfs", "ramfs"):
        pytest.skip("the temporary folder is a tmpfs here")
    allocator = Allocator(SliceRoot(tmp_path / "slices"), lambda: (T4,), LOG)
    with pytest.raises(SliceRootError, match=r"is not on a tmpfs.*Set c.GpuSlices.slice_root"):
        await Person(allocator, ALICE, TWO).task
    assert not (tmp_path / "slices").exists()


async def test_a_folder_that_can_not_be_written_is_refused_and_nothing_stays_reserved(
    allocator: Allocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocator_module, "create_slice", lambda *args, **kwargs: _no_space())
    with pytest.raises(SliceRootError, match="can't be written: No space left on device"):
        await Person(allocator, ALICE, TWO).task
    assert taken(allocator) == (0, 0)
    monkeypatch.undo()
    await Person(allocator, ALICE, TWO).task


def _no_space() -> None:
    raise OSError(28, "No space left on device")


async def test_a_file_in_the_folders_place_is_refused(shm: Path) -> None:
    (shm / "file").touch()
    with pytest.raises(SliceRootError, match="can't be written: Not a directory"):
        SliceRoot(shm / "file" / "slices").open()


async def test_two_hubs_can_not_have_one_folder(shm: Path) -> None:
    first, second = SliceRoot(shm / "slices"), SliceRoot(shm / "slices")
    first.open()
    first.open()
    with pytest.raises(SliceRootError, match="Another hub uses"):
        second.open()
    first.close()
    second.open()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
async def test_a_folder_that_another_user_could_exchange_is_refused(shm: Path) -> None:
    (shm / "theirs").mkdir()
    os.chown(shm / "theirs", 65534, 65534)
    with pytest.raises(SliceRootError, match="belongs to another user"):
        SliceRoot(shm / "theirs" / "slices").open()


async def test_tenants_reach_their_slice_but_list_no_others(root: SliceRoot) -> None:
    before = os.umask(0o077)
    try:
        root.open()
    finally:
        os.umask(before)
    assert root.path.stat().st_mode & 0o777 == 0o711


async def test_two_servers_of_one_name_never_share_a_directory(root: SliceRoot) -> None:
    odd = SliceId("Zoë O'Hara../../etc/my server")
    made = {root.new_directory(odd) for _ in range(50)}
    assert len(made) == 50
    assert all(path.parent == root.path and path.name.startswith("zo-o-hara-etc-my-server-") for path in made)
    assert root.new_directory(SliceId("中文/")).name.startswith("slice-")


def test_the_default_folder_is_on_a_tmpfs() -> None:
    assert file_system(default_slice_root()) == "tmpfs"
