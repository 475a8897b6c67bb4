"""The ring of slices on a card: entries come and go with the slices, and say what cannot be lied about."""

from __future__ import annotations

from pathlib import Path

import pytest

from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CardShare, CorePolicy, Placement, Priority
from hami_hub.core.units import Mib, Percent
from hami_hub.slicepage import create_slice, in_ring, layout, leave_ring, remove_slice

A, B = CardUuid("GPU-a"), CardUuid("GPU-b")


def placement(*cores: int, policy: CorePolicy = CorePolicy.DEFAULT, whole: bool = False) -> Placement:
    shares = tuple(CardShare(u, Mib(1000), Percent(c), whole=whole) for u, c in zip((A, B), cores, strict=False))
    return Placement(shares, priority=Priority.HIGH, policy=policy)


def make(root: Path, name: str, what: Placement, *, mounted: bool = False) -> Path:
    directory = root / "slices" / name
    create_slice(directory, name=name, placement=what, ring=root / "cards", mounted=mounted)
    return directory


def test_slices_find_each_other_by_the_card(tmp_path: Path):
    alice, bob = make(tmp_path, "alice", placement(25)), make(tmp_path, "bob", placement(50, 30))
    seen = sorted(path.name for path in (alice / "cards" / A).iterdir())
    assert seen == ["alice", "alice.share", "bob", "bob.share"]
    assert [path.name for path in sorted((bob / "cards" / B).iterdir())] == ["bob", "bob.share"]
    assert (alice / "cards" / A / "bob").stat().st_ino == (bob / "turns").stat().st_ino


def test_a_share_says_what_was_granted(tmp_path: Path):
    bob = make(tmp_path, "bob", placement(50, 30, policy=CorePolicy.FORCE))
    share = layout.Share.from_buffer_copy((bob / "cards" / B / "bob.share").read_bytes())
    assert (share.card, share.cores, share.policy, share.priority) == (1, 30, layout.PolicyCode.FORCE, Priority.HIGH)
    assert (tmp_path / "cards" / B / "bob.share").stat().st_mode & 0o777 == 0o444


def test_neighbours_may_read_the_page_and_not_write_it(tmp_path: Path):
    page = make(tmp_path, "alice", placement(25)) / "turns"
    assert page.stat().st_mode & 0o777 == 0o644
    turns = layout.Turns.from_buffer_copy(page.read_bytes())
    assert (turns.magic, turns.version, turns.member_high) == (layout.TURNS_MAGIC, layout.TURNS_VERSION, 0)


@pytest.mark.parametrize(
    "what",
    [placement(0), placement(100), placement(25, policy=CorePolicy.DISABLE), placement(25, whole=True), Placement(())],
    ids=["no cores", "all cores", "disabled", "whole card", "no card"],
)
def test_without_a_core_share_there_is_no_page_and_no_entry(tmp_path: Path, what: Placement):
    directory = make(tmp_path, "alice", what)
    assert not (directory / "turns").exists()
    assert in_ring(tmp_path / "cards") == frozenset()


def test_a_removed_slice_leaves_the_ring(tmp_path: Path):
    make(tmp_path, "alice", placement(25))
    bob = make(tmp_path, "bob", placement(50, 30))
    remove_slice(bob, ring=tmp_path / "cards")
    assert in_ring(tmp_path / "cards") == {"alice"}
    leave_ring("alice", ring=tmp_path / "cards")
    leave_ring("nobody", ring=tmp_path / "cards")
    assert list((tmp_path / "cards" / A).iterdir()) == []


def test_a_slice_made_anew_replaces_its_entry(tmp_path: Path):
    make(tmp_path, "alice", placement(25))
    alice = make(tmp_path, "alice", placement(40))
    assert (alice / "cards" / A / "alice").stat().st_ino == (alice / "turns").stat().st_ino
    assert layout.Share.from_buffer_copy((alice / "cards" / A / "alice.share").read_bytes()).cores == 40


def test_a_mounted_slice_has_places_to_mount_on(tmp_path: Path):
    alice = make(tmp_path, "alice", placement(25), mounted=True)
    place = alice / "cards" / A
    assert place.is_dir()
    assert not place.is_symlink()
    assert list(place.iterdir()) == []


def test_a_slice_outside_any_ring_still_has_its_page(tmp_path: Path):
    create_slice(tmp_path / "alone", name="alone", placement=placement(25))
    assert (tmp_path / "alone" / "turns").exists()
    assert not (tmp_path / "alone" / "cards").exists()
