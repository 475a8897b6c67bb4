"""The page's content from what journal, hub and cards say, and what has changed between two of them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.history import Start, StartState
from hami_hub.core.inventory import QueuedPod
from hami_hub.core.units import Mib
from hami_hub.service.model import GroupSeen, World, budgets, page
from hami_hub.service.revisions import Revisions
from hami_hub.service.sight import CardSeen, Sight, SliceSeen

UUID = CardUuid("GPU-1")
T4 = CardSeen(card=Card(uuid=UUID, index=0, model="Tesla T4", vram=Mib(15360)))


def start(user: str = "alice", state: StartState = StartState.RUNNING, **more: Any) -> Start:
    usual: dict[str, Any] = {
        "id": f"{user}-{more.get('server', '')}",
        "server": "",
        "group": "ml",
        "profile": "small",
        "cards": 1,
        "vram": Mib(4096),
        "cores": 25,
        "asked_at": 100.0,
        "started_at": 101.0 if state is StartState.RUNNING else None,
    }
    return Start(user=user, state=state, **{**usual, **more})


def seen(holder: str = "alice/", used: int | None = 1000) -> SliceSeen:
    return SliceSeen(holder=holder, card=UUID, vram=Mib(4096), cores=25, used=None if used is None else Mib(used))


def test_a_slice_that_is_seen_is_told_with_what_the_journal_knows_of_it():
    shown = page(World(sight=Sight(cards=(T4,), slices=(seen(),)), starts=(start(until=500.0),)))
    (row,) = shown["slices"].values()
    assert (row["user"], row["group"], row["profile"], row["since"], row["until"]) == (
        "alice",
        "ml",
        "small",
        101.0,
        500,
    )
    assert shown["used"] == {row["id"]: 1000}
    assert shown["cards"][UUID]["state"] == "ok"


def test_a_slice_that_the_journal_does_not_know_is_told_all_the_same():
    shown = page(World(sight=Sight(slices=(seen("bob/lab", used=None),))))
    (row,) = shown["slices"].values()
    assert (row["user"], row["server"], row["profile"], row["until"]) == ("bob", "lab", "", None)
    assert shown["used"] == {}


def test_a_name_that_the_page_had_to_cut_is_told_in_full():
    long = start("a" * 80)
    world = World(sight=Sight(slices=(seen("a" * 63),)), starts=(long,), names={"a" * 63: long.server_of})
    (row,) = page(world)["slices"].values()
    assert (row["user"], row["profile"]) == ("a" * 80, "small")


def test_what_is_placed_is_told_while_nobody_sees_the_cards():
    shown = page(World(starts=(start(cards=2, vram=Mib(8192), cores=50, placed=("GPU-1", "GPU-2")),)))
    assert {(row["card"], row["vram"], row["cores"]) for row in shown["slices"].values()} == {
        ("GPU-1", 4096, 25),
        ("GPU-2", 4096, 25),
    }


def test_what_is_seen_is_not_told_twice():
    world = World(sight=Sight(slices=(seen(),)), starts=(start(placed=("GPU-1",)),))
    assert len(page(world)["slices"]) == 1


def test_who_waits_is_told_with_place_and_reason():
    waits = start(state=StartState.WAITING, position=2, words="No room.")
    (row,) = page(World(starts=(waits, start("bob"))))["waiting"].values()
    assert (row["user"], row["place"], row["why"], row["vram"]) == ("alice", 2, "No room.", 4096)


def test_in_a_cluster_place_and_reason_are_the_schedulers():
    pod = QueuedPod("jhub", "jupyter-alice", place=7, asks="4 GiB", reason="No node has room.")
    world = World(
        sight=Sight(waiting=(pod,)),
        starts=(start(state=StartState.STARTING),),
        names={"jhub/jupyter-alice": "alice/"},
    )
    (row,) = page(world)["waiting"].values()
    assert (row["user"], row["place"], row["why"], row["group"]) == ("alice", 7, "No node has room.", "ml")


def test_a_pod_of_nobody_known_waits_under_its_own_name():
    pod = QueuedPod("batch", "job-1", place=1, asks="2 whole cards", reason="No room.")
    (row,) = page(World(sight=Sight(waiting=(pod,))))["waiting"].values()
    assert (row["user"], row["server"], row["asks"]) == ("batch", "job-1", "2 whole cards")


@pytest.mark.parametrize(
    ("card", "state"),
    [
        pytest.param({"healthy": False}, "broken", id="out of order"),
        pytest.param({"cordoned": True}, "closed", id="closed by an admin"),
        pytest.param({"healthy": False, "cordoned": True}, "broken", id="both"),
    ],
)
def test_a_card_that_takes_nobody_says_why(card, state):
    broken = CardSeen(card=Card(uuid=UUID, index=0, model="T4", vram=Mib(1), **card))
    assert page(World(sight=Sight(cards=(broken,))))["cards"][UUID]["state"] == state


def test_use_of_a_group_is_what_runs_and_starts_whichever_case_its_name_has():
    world = World(
        starts=(
            start(group="ML"),
            start("bob", StartState.WAITING, group="ml"),
            start("carol", group="bio"),
            start("dora", group="ml", cards=0, vram=Mib(0), cores=0),
        ),
        groups=(GroupSeen("ml", {"hami.vram": "24GiB"}, 3), GroupSeen("staff", {"owner": "mona"})),
    )
    shown = page(world)["groups"]
    assert list(shown) == ["ml"]
    assert shown["ml"]["used"] == {"vram": 8192, "cores": 50, "servers": 2}
    assert (shown["ml"]["limit"]["vram"], shown["ml"]["people"], shown["ml"]["members"]) == (24576, 2, 3)


def test_the_default_quota_is_charged_for_who_has_no_group():
    world = World(starts=(start(group=""), start("bob")), default_quota={"hami.servers": "5"})
    ((budget, _),) = budgets(world)
    assert (budget.group, budget.used.servers, budget.quota.servers) == ("", 1, 5)


def test_a_quota_that_is_written_wrongly_is_told_as_it_stands():
    shown = page(World(groups=(GroupSeen("ml", {"hami.vram": ["24"], "hami.x": 3, "note": "n"}),)))["groups"]["ml"]
    assert shown["faults"] == 2
    assert shown["properties"] == {"hami.vram": "['24']", "hami.x": "3"}


def test_problems_of_all_sources_are_notes():
    shown = page(World(sight=Sight(problems=("No NVML.",)), problems=("No journal.",)))["notes"]
    assert [note["text"] for note in shown.values()] == ["No journal.", "No NVML."]


# --- revisions -------------------------------------------------------------------------------------------------------

rows = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), max_size=6)
pages = st.fixed_dictionaries({"slices": rows, "used": rows})


def applied(before: Any, said: Any) -> Any:
    """What the browser does."""
    if said["base"] is None:
        return copy.deepcopy(said["sections"])
    after = copy.deepcopy(before)
    for section, changed in said["sections"].items():
        after[section].update(changed)
        for each in said["gone"][section]:
            after[section].pop(each, None)
    return after


@given(st.lists(pages, min_size=1, max_size=60), st.data())
def test_whoever_applies_the_changes_has_the_newest_page(told, data):
    revisions = Revisions()
    revision, mine = "", None
    for each in told:
        revisions.add(each)
        if data.draw(st.booleans()):
            said = revisions.since(revision)
            revision, mine = said["revision"], applied(mine, said)
            assert mine == each


def test_only_what_changed_is_told():
    revisions = Revisions()
    revisions.add({"used": {"a": 1, "b": 2, "c": 3}})
    before = revisions.newest
    revisions.add({"used": {"a": 1, "b": 5}})
    said = revisions.since(before)
    assert (said["base"], said["sections"], said["gone"]) == (before, {"used": {"b": 5}}, {"used": ["c"]})


def test_the_same_page_is_no_new_revision():
    revisions = Revisions()
    revisions.add({"used": {"a": 1}})
    before = revisions.newest
    revisions.add({"used": {"a": 1}})
    assert revisions.newest == before
    assert revisions.since(before)["sections"] == {"used": {}}


@pytest.mark.parametrize("revision", ["", "nonsense", "0-1", "<script>"])
def test_an_unknown_revision_gets_everything(revision):
    revisions = Revisions()
    revisions.add({"used": {"a": 1}})
    assert revisions.since(revision)["base"] is None
