"""Charges: whatever happens in whatever order, no start is accepted above its quota, and nothing stays charged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hami_hub.core.budgets import Asked, Budget, Refused, total
from hami_hub.core.history import Start, StartState
from hami_hub.core.quota import Charge, has_quota, parse_quota
from hami_hub.core.slices import CardShare, CardUuid, Placement, SliceId
from hami_hub.core.state import StateError
from hami_hub.core.units import Mib, Percent
from hami_hub.journal import Journal
from hami_hub.spawner.attempt import Attempt, Books
from hami_hub.spawner.charges import Charges, limits_anything

GIB = 1024
GROUPS = ("ml", "Art", "ART", "broken")
PEOPLE = ("alice", "bob", "carol")
IN = {"alice": ("ml", "Art"), "bob": ("ml", "ART", "broken"), "carol": ()}

properties = st.fixed_dictionaries(
    {},
    optional={
        "hami.vram": st.integers(0, 24).map(lambda gib: f"{gib}GiB"),
        "hami.servers": st.integers(0, 4).map(str),
        "hami.cores": st.integers(0, 200).map(str),
        "hami.vram-per-user": st.integers(0, 16).map(lambda gib: f"{gib}GiB"),
        "hami.user.alice.servers": st.integers(0, 3).map(str),
        "hami.max-lifetime": st.just("1h"),
        "colour": st.just("red"),
    },
)


def amount_of(placement: Placement) -> tuple[int, int]:
    return sum(share.vram for share in placement.shares), sum(share.cores for share in placement.shares)


def placed(gib: int, cores: int) -> Placement:
    return Placement((CardShare(CardUuid("GPU-0"), Mib(gib * GIB), Percent(cores)),))


class Hub(RuleBasedStateMachine):
    """One hub after the other, over the same people and groups."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.journal = Journal("")
        self.books = Books(Charges({"hami.vram": "8GiB"}), self.journal, lambda: self.now)
        self.live: list[Attempt] = []
        self.saved: dict[str, dict[str, Any]] = {}

    @initialize(given=st.lists(properties, min_size=len(GROUPS), max_size=len(GROUPS)))
    def groups_as_they_are(self, given: list[dict[str, str]]) -> None:
        self.properties = dict(zip(GROUPS, given, strict=True))
        self.properties["broken"] = {"hami.vram": "lots"}

    @rule(group=st.sampled_from(GROUPS[:-1]), given=properties)
    def an_admin_edits(self, group: str, given: dict[str, str]) -> None:
        self.properties[group] = given

    @rule(
        user=st.sampled_from(PEOPLE),
        server=st.sampled_from(["", "a", "b"]),
        gib=st.integers(1, 12),
        cores=st.integers(0, 60),
        wanted=st.sampled_from(["", "ml", "art", "nobody"]),
    )
    def somebody_starts(self, user: str, server: str, gib: int, cores: int, wanted: str) -> None:
        holder = f"{user}/{server}"
        if any(each.start.server_of == holder for each in self.live):
            return  # the hub starts no server that starts or runs
        groups = [(name, self.properties[name]) for name in IN[user]]
        attempt = Attempt(self.books, user, server)
        asked = Asked(user, "small", 1, Mib(gib * GIB), cores)
        refused = attempt.pay(asked, groups, wanted, None)
        if refused is not None:
            attempt.comes_to(StartState.REFUSED, "hami-over-quota", "No.")
            attempt.over()
            assert self.books.charges.of(attempt.id) is None
            return
        self.live.append(attempt)
        self._accepted_within(attempt, user)

    def _accepted_within(self, attempt: Attempt, user: str) -> None:
        group = attempt.start.group
        given = self.properties[group] if group else {"hami.vram": "8GiB"}
        quota, faults = parse_quota(given)
        assert not faults
        assert has_quota(given)
        (budget,) = self.books.charges.budgets([(group, given)] if group else [])
        held = budget.charges
        personal = quota.of_user(user)
        for limits, used in ((quota, total(held)), (personal, total(c for c in held if c.user == user))):
            assert limits.vram is None or used.vram <= limits.vram
            assert limits.cores is None or used.cores <= limits.cores
            assert limits.servers is None or used.servers <= limits.servers

    @rule(which=st.integers(0, 20), less=st.integers(0, 4))
    def one_gets_its_slice(self, which: int, less: int) -> None:
        if self.live:
            attempt = self.live[which % len(self.live)]
            start = attempt.start
            attempt.placed(placed(max(1, start.vram // GIB - less), start.cores))
            attempt.placed(None)

    @rule(which=st.integers(0, 20))
    def one_runs(self, which: int) -> None:
        if self.live:
            attempt = self.live[which % len(self.live)]
            attempt.runs()
            self.saved[attempt.id] = attempt.to_state()

    @rule(
        which=st.integers(0, 20),
        how=st.sampled_from([StartState.ENDED, StartState.FAILED, StartState.CANCELLED]),
        times=st.integers(1, 3),
    )
    def one_is_over(self, which: int, how: StartState, times: int) -> None:
        if self.live:
            attempt = self.live.pop(which % len(self.live))
            attempt.comes_to(how)
            for _ in range(times):
                attempt.over()
            self.saved.pop(attempt.id, None)

    @rule()
    def the_hub_dies(self) -> None:
        self.journal = Journal("")
        self.books = Books(Charges({"hami.vram": "8GiB"}), self.journal, lambda: self.now)
        before = {each.id: each for each in self.live if each.id in self.saved}
        self.live = [
            Attempt.restored(self.books, each.start.user, each.start.server, self.saved[id_])
            for id_, each in before.items()
        ]
        for attempt in self.live:
            assert replace(attempt.start, position=0) == replace(before[attempt.id].start, position=0)
            assert attempt.terms == before[attempt.id].terms

    @invariant()
    def what_is_charged_is_what_lives(self) -> None:
        self.now += 1
        assert {charge.holder for charge in self.books.charges.all()} == {each.start.server_of for each in self.live}
        assert {each.id for each in self.journal.open_now()} == {each.id for each in self.live}
        for each in self.live:
            charge = self.books.charges.of(each.id)
            assert charge is not None
            assert (charge.vram, charge.cores, charge.group) == (each.start.vram, each.start.cores, each.start.group)
            assert charge.until == each.start.until

    def teardown(self) -> None:
        for attempt in self.live:
            attempt.over()
        assert self.books.charges.all() == ()
        assert self.journal.open_now() == ()


Hub.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestHub = Hub.TestCase


# --- single cases ---------------------------------------------------------------------------------------------------


def take(charges: Charges, start: str, gib: int, holder: str = "alice/", **quota: str) -> Budget | Refused:
    given = {f"hami.{key}": value for key, value in quota.items()}
    asked = Asked(holder.partition("/")[0], "small", 1, Mib(gib * GIB), 0)
    return charges.take(start, SliceId(holder), [("ml", given)] if given else [], asked, "", 0.0)


def test_the_next_start_of_a_holder_whose_last_server_still_ends_is_not_refused_for_it() -> None:
    charges = Charges({})
    take(charges, "one", 8, vram="8GiB")
    assert isinstance(take(charges, "two", 4, vram="8GiB"), Budget)
    # Until the new server has its slice the old one may still have its own.
    assert [charge.vram for charge in charges.all()] == [8 * GIB]
    charges.settle("two", cards=1, vram=Mib(4 * GIB), cores=0, until=None)
    charges.release("one")
    assert [charge.vram for charge in charges.all()] == [4 * GIB]
    assert isinstance(take(charges, "three", 5, "bob/", vram="8GiB"), Refused)


def test_groups_that_differ_in_case_only_share_what_is_charged() -> None:
    charges = Charges({})
    take(charges, "one", 8, vram="8GiB")
    [budget] = charges.budgets([("ML", {"hami.vram": "9GiB"})])
    assert [charge.group for charge in budget.charges] == ["ml"]
    assert (budget.group, budget.used.vram) == ("ML", 8 * GIB)


def test_who_is_in_no_group_with_a_quota_has_the_default_one() -> None:
    charges = Charges({"hami.vram": "8GiB"})
    assert isinstance(take(charges, "one", 8), Budget)
    assert isinstance(take(charges, "two", 1, "bob/"), Refused)
    [budget] = charges.budgets([("art", {"colour": "red"}), ("x", {})])
    assert (budget.group, budget.used.vram) == ("", 8 * GIB)


def test_a_group_that_is_deleted_is_charged_for_what_runs_and_pays_for_nothing_new() -> None:
    charges = Charges({"hami.servers": 0})
    take(charges, "one", 8, vram="8GiB")
    assert isinstance(take(charges, "two", 1, "bob/"), Refused)
    assert [charge.group for charge in charges.all()] == ["ml"]


@pytest.mark.parametrize(
    ("quota", "limits"), [({}, False), ({"hami.vram": "8GiB"}, True), ({"hami.weight": "x"}, True)], ids=str
)
def test_whether_there_is_anything_to_show(quota: dict[str, str], limits: bool) -> None:
    assert limits_anything(Charges(quota).budgets([])) is limits


def test_the_journal_hears_each_start_once_and_how_it_went() -> None:
    journal, told = Journal(""), list[Start]()
    journal.watch(lambda before, after: told.append(after))
    books = Books(Charges({}), journal, lambda: 5.0)
    attempt = Attempt(books, "alice", "train")
    attempt.pay(Asked("alice", "small", 1, Mib(4096), 25), [("ml", {"hami.max-lifetime": "1h"})], "", 60)
    attempt.waits(2)
    attempt.waits(2)
    attempt.waits(1)
    attempt.placed(placed(4, 25))
    attempt.runs()
    attempt.comes_to(StartState.ENDED, "hami-lifetime", "Over.")
    attempt.comes_to(StartState.CANCELLED)
    attempt.over()
    attempt.over()
    assert [(each.state.value, each.position) for each in told] == [
        ("starting", 0), ("waiting", 2), ("waiting", 1), ("starting", 0), ("running", 0), ("ended", 0),
    ]  # fmt: skip
    last = told[-1]
    assert (last.group, last.until, last.started_at, last.ended_at) == ("ml", 65.0, 5.0, 5.0)
    assert (last.reason, last.words, last.placed) == ("hami-lifetime", "Over.", ("GPU-0",))


def test_a_refusal_is_one_line_of_the_journal_with_what_was_asked_for() -> None:
    journal, told = Journal(""), list[Start]()
    journal.watch(lambda before, after: told.append(after))
    attempt = Attempt(Books(Charges({"hami.vram": "1GiB"}), journal), "alice", "")
    assert attempt.pay(Asked("alice", "x" * 500, 1, Mib(4096), 25), [], "", None) is not None
    attempt.comes_to(StartState.REFUSED, "hami-over-quota", "No.")
    attempt.over()
    [start] = told
    assert (start.state, start.vram, len(start.profile), start.reason) == (
        StartState.REFUSED, 4096, 100, "hami-over-quota",
    )  # fmt: skip
    assert start.ended_at is not None


@pytest.mark.parametrize(
    "saved",
    [
        {"start": "x"},
        {"start": "x", "group": "", "charge": None},
        {"start": "x", "group": "", "charge": {"cards": "y"}},
    ],
)
def test_what_another_version_wrote_is_not_guessed(saved: dict[str, Any]) -> None:
    with pytest.raises(StateError):
        Attempt.restored(Books(Charges({}), Journal("")), "alice", "", saved)


def test_a_charge_says_what_quotas_limit() -> None:
    charge = Charge(holder=SliceId("a/"), user="a", group="", profile="p", cards=2, vram=Mib(8), cores=5, since=0)
    assert (charge.amount.vram, charge.amount.cores, charge.amount.servers) == (8, 5, 1)
