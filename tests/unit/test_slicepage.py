"""The slice directory from the hub's side: made, resized, read back; damaged ones are refused in words."""

from __future__ import annotations

import ctypes
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CardShare, CorePolicy, Placement, Priority
from hami_hub.core.units import Mib, Percent
from hami_hub.slicepage import (
    PageError,
    create_slice,
    find_slice,
    layout,
    read_placement,
    read_slice,
    remove_slice,
    resize_card,
)

SHARE = CardShare(CardUuid("GPU-0"), Mib(4000), Percent(25))
PLACEMENT = Placement(shares=(SHARE,), priority=Priority.HIGH, policy=CorePolicy.FORCE)


def fill_slot(directory: Path, *, owner: int, held: int, card: int = 0, slot: int = 0) -> None:
    """Write into the usage page what the limiter would."""
    path = directory / layout.USAGE_FILE
    usage = layout.Usage.from_buffer_copy(path.read_bytes())
    usage.processes[slot].owner = owner
    usage.processes[slot].comm = b"python3"
    usage.processes[slot].held[card] = held
    usage.process_high = max(usage.process_high, slot + 1)
    path.write_bytes(bytes(usage))


def own_identity() -> int:
    fields = Path("/proc/self/stat").read_bytes().rsplit(b")", 1)[1].split()
    return os.getpid() << 32 | int(fields[19]) & 0xFFFFFFFF


@pytest.fixture
def slice_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "slice"
    create_slice(directory, name="alice/", placement=PLACEMENT)
    return directory


def test_what_is_written_is_read(slice_dir: Path) -> None:
    view = read_slice(slice_dir)
    (card,) = view.cards
    assert (view.name, card.uuid, card.limit, card.cores) == ("alice/", "GPU-0", 4000, 25)
    assert (card.policy, card.priority, card.whole, card.used) == (CorePolicy.FORCE, Priority.HIGH, False, 0)
    assert view.processes == ()


def test_the_tenant_can_read_the_limits_and_write_only_the_usage(slice_dir: Path) -> None:
    assert stat.S_IMODE((slice_dir / "limits").stat().st_mode) == 0o444
    assert stat.S_IMODE((slice_dir / "usage").stat().st_mode) == 0o600


def test_the_umask_takes_nothing_away(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        create_slice(tmp_path / "s", name="a/", placement=PLACEMENT)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o755
    assert read_slice(tmp_path / "s").name == "a/"


def test_a_new_slice_replaces_an_old_one(slice_dir: Path) -> None:
    fill_slot(slice_dir, owner=own_identity(), held=1 << 30)
    create_slice(slice_dir, name="bob/", placement=PLACEMENT)
    view = read_slice(slice_dir)
    assert (view.name, view.cards[0].used) == ("bob/", 0)


def test_what_a_live_process_holds_is_counted_and_a_dead_one_is_not(slice_dir: Path) -> None:
    fill_slot(slice_dir, owner=own_identity(), held=1 << 30, slot=0)
    fill_slot(slice_dir, owner=own_identity() ^ 1, held=1 << 30, slot=1)  # same PID, another start: a recycled PID
    view = read_slice(slice_dir)
    assert view.cards[0].used == 1024
    assert [(p.pid, p.name, p.used) for p in view.processes] == [(os.getpid(), "python3", (1024,))]
    assert read_slice(slice_dir, same_pid_namespace=False).cards[0].used == 2048


def test_a_running_slice_is_resized_in_place(slice_dir: Path) -> None:
    inode = (slice_dir / "limits").stat().st_ino
    resize_card(slice_dir, uuid="GPU-0", vram=Mib(6000))
    assert read_slice(slice_dir).cards[0].limit == 6000
    assert (slice_dir / "limits").stat().st_ino == inode
    assert stat.S_IMODE((slice_dir / "limits").stat().st_mode) == 0o444
    sequence = layout.Limits.from_buffer_copy((slice_dir / "limits").read_bytes()).sequence
    assert sequence == 2


def test_resizing_a_card_that_is_not_there(slice_dir: Path) -> None:
    with pytest.raises(PageError, match="no card GPU-9"):
        resize_card(slice_dir, uuid="GPU-9", vram=Mib(1))


def test_a_slice_of_no_card_and_of_too_many(tmp_path: Path) -> None:
    create_slice(tmp_path / "none", name="cpu/", placement=Placement(shares=()))
    assert read_slice(tmp_path / "none").cards == ()
    with pytest.raises(PageError, match="at most 16"):
        create_slice(tmp_path / "many", name="x/", placement=Placement(shares=(SHARE,) * 17))
    assert not (tmp_path / "many").exists()


@given(st.text(max_size=100))
def test_any_name_fits_the_page(name: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as root:
        create_slice(Path(root) / "s", name=name.encode(errors="ignore").decode(), placement=PLACEMENT)
        assert len(read_slice(Path(root) / "s").name.encode()) < layout.NAME_SIZE


def damage(path: Path, offset: int, value: bytes) -> None:
    path.chmod(0o644)
    content = bytearray(path.read_bytes())
    content[offset : offset + len(value)] = value
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("file", "offset", "value", "says"),
    [
        ("limits", 0, b"NOTAPAGE", "doesn't begin as a slice page"),
        ("usage", 0, b"NOTAPAGE", "doesn't begin as a slice page"),
        ("limits", layout.Limits.version.offset, b"\x09", "version 9"),
        ("limits", layout.Limits.card_count.offset, b"\xff", "lists 255 cards"),
        ("limits", layout.Limits.size.offset, b"\x00", "doesn't begin as a slice page"),
        ("limits", layout.Limits.cards.offset + layout.CardLimit.policy.offset, b"\x07", "damaged: 7 is not"),
        ("limits", layout.Limits.cards.offset + layout.CardLimit.priority.offset, b"\x07", "damaged: 7 is not"),
    ],
)
def test_a_damaged_page_is_refused_in_words(slice_dir: Path, file: str, offset: int, value: bytes, says: str) -> None:
    damage(slice_dir / file, offset, value)
    with pytest.raises(PageError, match=says):
        read_slice(slice_dir)


@pytest.mark.parametrize(
    ("offset", "value", "says"),
    [
        (layout.Limits.card_count.offset, b"\x11", "lists 17 cards"),
        (layout.Limits.cards.offset + layout.CardLimit.priority.offset, b"\x07", "damaged: 7 is not"),
    ],
)
def test_a_page_that_shows_nothing_gives_no_placement_either(
    slice_dir: Path, offset: int, value: bytes, says: str
) -> None:
    damage(slice_dir / "limits", offset, value)
    for read in (read_slice, read_placement):
        with pytest.raises(PageError, match=says):
            read(slice_dir)


def test_the_oom_killer_is_in_the_page(tmp_path: Path) -> None:
    for wanted in (False, True):
        create_slice(tmp_path / "s", name="x/", placement=Placement((SHARE,), oom_killer=wanted))
        assert read_placement(tmp_path / "s").oom_killer is wanted


def test_a_short_or_missing_page_is_refused_in_words(slice_dir: Path) -> None:
    (slice_dir / "usage").write_bytes(b"short")
    with pytest.raises(PageError, match="5 bytes instead of"):
        read_slice(slice_dir)
    (slice_dir / "usage").unlink()
    with pytest.raises(PageError, match="There is no slice page"):
        read_slice(slice_dir)


def test_refusals_are_told_oldest_first(slice_dir: Path) -> None:
    path = slice_dir / layout.USAGE_FILE
    usage = layout.Usage.from_buffer_copy(path.read_bytes())
    for index, ticket in enumerate([3, 0, 2]):
        record = usage.refusals[index]
        record.ticket, record.asked, record.limit, record.call, record.pid = (
            ticket,
            6 << 30,
            4000 << 20,
            b"cuMemAlloc_v2",
            7,
        )
        record.holders[0].pid, record.holders[0].bytes = 7, 104 << 20
    path.write_bytes(bytes(usage))
    first, second = read_slice(slice_dir).refusals
    assert (first.asked, first.limit, first.call, first.holders) == (6144, 4000, "cuMemAlloc_v2", ((7, 104),))
    assert second.pid == 7


def test_removing_twice_is_no_error(slice_dir: Path) -> None:
    remove_slice(slice_dir)
    remove_slice(slice_dir)
    assert not slice_dir.exists()


def test_a_slice_is_found_by_its_variable(slice_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HAMI_SLICE_DIR", raising=False)
    assert find_slice() is None
    monkeypatch.setenv("HAMI_SLICE_DIR", str(slice_dir))
    assert find_slice() == slice_dir


def test_the_mirror_has_no_hidden_padding() -> None:
    for page in (layout.CardLimit, layout.Limits, layout.CardUsage, layout.Process, layout.RefusalRecord, layout.Usage):
        assert ctypes.sizeof(page) == sum(getattr(page, name).size for name, _ in page._fields_)
