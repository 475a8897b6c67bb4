"""The books over many nodes: the same verdict as on one machine, and no order of calls over-commits a card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hami_hub.core.cards import Card, CardState, CardUuid
from hami_hub.core.fleet import Fleet
from hami_hub.core.nodes import FleetNoRoom, FleetPlacement, NodeLack, NodesShort
from hami_hub.core.placement import NoRoom, place, share_of, shortfall
from hami_hub.core.pods import ContainerAsk, PodUid, PodView
from hami_hub.core.slices import (
    CardPolicy,
    CardShare,
    NodePolicy,
    Placement,
    SliceRequest,
)
from hami_hub.core.units import Mib, Percent

from .strategies import cards, node_policies, requests

NODES = ("node-a", "node-b", "node-c")
UIDS = [PodUid(f"uid-{i}") for i in range(6)]


def t4(index: int = 0, node: str = "a", **more: object) -> Card:
    return Card(CardUuid(f"GPU-{node}-{index}"), index, "Tesla T4", Mib(15360), **more)  # type: ignore[arg-type]


def pod(*asks: SliceRequest, uid: str = "uid", **more: object) -> PodView:
    named = tuple(ContainerAsk(f"c{i}", request) for i, request in enumerate(asks))
    return PodView(namespace="ns", name=uid, uid=PodUid(uid), asks=named, **more)  # type: ignore[arg-type]


def gib(amount: int, cores: int = 0, **more: object) -> SliceRequest:
    return SliceRequest(vram=Mib(amount * 1024), cores=Percent(cores), **more)  # type: ignore[arg-type]


def bound(view: PodView, placed: FleetPlacement) -> PodView:
    """`view` as the watch shows it after the binding."""
    slots = sum(len(placement.shares) for placement in placed.slices.values())
    return replace(view, node=placed.node, slices=placed.slices, slots=slots)


def fleet_of(nodes: Mapping[str, Sequence[Card]]) -> Fleet:
    fleet = Fleet()
    for name, on in nodes.items():
        fleet.set_node(name, on)
    return fleet


def placed(verdict: FleetPlacement | FleetNoRoom) -> FleetPlacement:
    assert isinstance(verdict, FleetPlacement), verdict
    return verdict


def refused(verdict: FleetPlacement | FleetNoRoom) -> FleetNoRoom:
    assert isinstance(verdict, FleetNoRoom), verdict
    return verdict


def with_holders(on: Sequence[Card], data: st.DataObject) -> tuple[Fleet, tuple[CardState, ...], int]:
    """One node with its cards, some slices that pods hold already, whether they fit or not, and the slots of a foreign
    pod.
    """
    fleet = fleet_of({"node-a": on})
    for i in range(data.draw(st.integers(0, 6))):
        card = data.draw(st.sampled_from(list(on)))
        share = CardShare(
            card.uuid,
            Mib(data.draw(st.integers(1, card.vram // data.draw(st.sampled_from([1, 8]))))),
            Percent(data.draw(st.sampled_from([0, 10, 50]))),
            exclusive=data.draw(st.integers(0, 6)) == 0,
        )
        fleet.set_pod(pod(uid=f"holder-{i}", node="node-a", slices={"c": Placement((share,), node="node-a")}, slots=1))
    foreign = data.draw(st.sampled_from([0, 0, 3, 15]))
    fleet.set_pod(pod(uid="foreign", node="node-a", slots=foreign))
    return fleet, fleet.states("node-a"), foreign


def near_the_limit(request_: SliceRequest, states: Sequence[CardState], data: st.DataObject) -> SliceRequest:
    """`request_`, or one that asks for just what a card has free, or for one more."""
    kind = data.draw(st.sampled_from(["as it is", "vram", "cores"]))
    free = data.draw(st.sampled_from(states))
    more = data.draw(st.integers(0, 1))
    if kind == "vram":
        return replace(request_, vram=Mib(max(1, free.free_vram + more)), vram_percent=None)
    if kind == "cores":
        return replace(request_, cores=Percent(min(99, free.free_cores + more)), vram=Mib(1), vram_percent=None)
    return request_


@settings(max_examples=300)
@given(requests(), cards(cordons=True), node_policies, st.data())
def test_on_one_node_the_fleet_judges_as_one_machine_does(
    request_: SliceRequest, on: list[Card], policy: NodePolicy, data: st.DataObject
) -> None:
    fleet, states, foreign = with_holders(on, data)
    request_ = near_the_limit(request_, states, data)
    verdict = fleet.try_place(pod(request_, node_policy=policy), ["node-a"])
    expected = place(request_, states, repairable=True)
    slots_left = sum(c.split_count for c in on if c.healthy) - sum(s.slices for s in states) - foreign
    if isinstance(expected, NoRoom):
        no_room = refused(verdict)
        assert no_room.never is expected.never
        lacks = {short.lack: short.cards for short in no_room.cards}
        now = [shortfall(request_, state) for state in states]
        found = [short.lack for short in now if short is not None]
        assert lacks == {lack: found.count(lack) for lack in set(found)}
        for short in no_room.cards:
            assert (short.nearest.asked, short.nearest.free, short.nearest.uuid) in {
                (one.asked, one.free, one.uuid) for one in now if one is not None and one.lack is short.lack
            }
    elif slots_left < request_.cards:
        assert NodeLack.KUBELET_SLOTS in {short.lack for short in refused(verdict).short}
    else:
        shares = placed(verdict).slices["c0"].shares
        assert len({share.uuid for share in shares}) == request_.cards
        if request_.card_policy is not CardPolicy.FGD:
            assert placed(verdict).slices == {"c0": replace(expected, node="node-a")}
        by_uuid = {state.card.uuid: state for state in states}
        assert all(shortfall(request_, by_uuid[share.uuid]) is None for share in shares)


small = st.builds(
    SliceRequest,
    cards=st.integers(1, 2),
    vram=st.sampled_from([1024, 2048, 3072, 4096]).map(Mib),
    cores=st.sampled_from([0, 25, 50, 75, 100]).map(Percent),
    card_policy=st.sampled_from(CardPolicy),
    empty_card=st.booleans(),
)


@settings(max_examples=300)
@given(st.lists(small, min_size=1, max_size=3), cards(max_cards=3), node_policies, st.data())
def test_whatever_is_placed_fits_what_was_free(
    asked: list[SliceRequest], on: list[Card], policy: NodePolicy, data: st.DataObject
) -> None:
    # an annotation of the pod says so, for all of its containers
    asked = [replace(request_, empty_card=asked[0].empty_card) for request_ in asked]
    fleet, states, foreign = with_holders(on, data)
    verdict = fleet.try_place(pod(*asked, node_policy=policy))
    possible = fits_somehow(asked, list(states), foreign)
    if isinstance(verdict, FleetNoRoom):
        assert not possible
        return
    assert possible
    shares = [share for held in verdict.slices.values() for share in held.shares]
    for state in states:
        mine = [share for share in shares if share.uuid == state.card.uuid]
        if mine:
            assert state.card.healthy
            assert sum(share.vram for share in mine) <= state.free_vram
            assert sum(share.cores for share in mine) <= state.free_cores
            assert len(mine) <= state.free_slices
            assert not any(share.exclusive for share in mine) or (len(mine) == 1 and not state.slices)
    for request_, held in zip(asked, verdict.slices.values(), strict=True):
        assert len({share.uuid for share in held.shares}) == len(held.shares) == request_.cards


def test_containers_without_cores_go_before_one_that_takes_the_last() -> None:
    fleet = fleet_of({"node-a": [t4()]})
    half = CardShare(t4().uuid, Mib(1), Percent(50))
    fleet.set_pod(pod(uid="holder", node="node-a", slices={"c": Placement((half,), node="node-a")}, slots=1))
    assert len(placed(fleet.try_place(pod(gib(1), gib(1, 50), gib(2)))).slices) == 3


def fits_somehow(asked: Sequence[SliceRequest], states: list[CardState], foreign: int) -> bool:
    """Every way to place the containers, those without cores first, one after the other by the rule for one card."""
    slots = sum(s.card.split_count for s in states if s.card.healthy) - sum(s.slices for s in states) - foreign
    return slots >= sum(request_.cards for request_ in asked) and _any_way(
        sorted(asked, key=lambda request_: request_.cores > 0), states
    )


def _any_way(asked: Sequence[SliceRequest], states: list[CardState]) -> bool:
    if not asked:
        return True
    request_, rest = asked[0], asked[1:]
    fitting = [i for i, state in enumerate(states) if shortfall(request_, state) is None]
    for chosen in combinations(fitting, request_.cards):
        then = list(states)
        for i in chosen:
            state = states[i]
            share = share_of(request_, state.card)
            then[i] = CardState(
                state.card,
                Mib(state.used_vram + share.vram),
                Percent(state.used_cores + share.cores),
                state.slices + 1,
                state.exclusive or share.exclusive,
            )
        if _any_way(rest, then):
            return True
    return False


class FleetMachine(RuleBasedStateMachine):
    """Any order of what a watch, an extender and a failing API server may bring."""

    @initialize(on=st.lists(cards(cordons=True), min_size=3, max_size=3))
    def start(self, on: list[list[Card]]) -> None:
        self.cards = {
            name: tuple(replace(card, uuid=CardUuid(f"{card.uuid}-{name}")) for card in of_node)
            for name, of_node in zip(NODES, on, strict=True)
        }
        self.fleet = fleet_of(self.cards)
        self.there = set(NODES)
        self.bound: dict[PodUid, PodView] = {}  # what the API server has
        self.reserved: dict[PodUid, FleetPlacement] = {}
        self.posting: dict[PodUid, FleetPlacement] = {}  # the binding is on its way
        self.binding: dict[PodUid, PodView] = {}  # bound at the API server, not seen by the watch
        self.now = 0.0
        self.until: dict[PodUid, float] = {}

    @rule(uid=st.sampled_from(UIDS), asked=st.lists(small | requests(max_cards=2), min_size=1, max_size=2),
          candidates=st.sets(st.sampled_from(NODES)), policy=node_policies, patience=st.integers(1, 5))  # fmt: skip
    def filter(
        self, uid: PodUid, asked: list[SliceRequest], candidates: set[str], policy: NodePolicy, patience: int
    ) -> None:
        if uid in self.bound:
            return
        view = pod(*asked, uid=uid, node_policy=policy)
        before = self.fleet.try_place(view, candidates)
        verdict = self.fleet.reserve(view, candidates, until=self.now + patience)
        if uid in self.binding or uid in self.posting:
            assert placed(verdict) == self.held()[uid]
            return
        if uid not in self.reserved:
            assert verdict == before
        self.reserved.pop(uid, None)
        if isinstance(verdict, FleetPlacement):
            assert verdict.node in candidates & self.there
            self.reserved[uid], self.until[uid] = verdict, self.now + patience

    @precondition(lambda self: self.reserved)
    @rule(data=st.data())
    def bind(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.reserved)))
        verdict = self.reserved.pop(uid)
        assert self.fleet.binding(uid, "another") is None
        assert self.fleet.binding(uid, verdict.node) == verdict
        assert self.fleet.binding(uid, verdict.node) == verdict
        self.posting[uid] = verdict

    @precondition(lambda self: self.posting)
    @rule(data=st.data(), fails=st.booleans())
    def api_server_answers(self, data: st.DataObject, fails: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.posting)))
        verdict = self.posting.pop(uid)
        if fails:
            assert self.fleet.release(uid)
            return
        self.binding[uid] = bound(pod(uid=uid), verdict)
        self.fleet.confirm(uid, until=self.now + 1000)

    @precondition(lambda self: self.binding)
    @rule(data=st.data())
    def watch_shows_it(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.binding)))
        self.bound[uid] = self.binding.pop(uid)
        assert not self.fleet.set_pod(self.bound[uid])

    @rule(uid=st.sampled_from(UIDS), node=st.sampled_from(NODES), slots=st.integers(1, 3))
    def foreign_pod(self, uid: PodUid, node: str, slots: int) -> None:
        if uid not in self.bound and uid not in self.binding and uid not in self.posting:
            self.reserved.pop(uid, None)
            self.bound[uid] = pod(uid=uid, node=node, slots=slots)
            self.fleet.set_pod(self.bound[uid])

    @precondition(lambda self: self.bound)
    @rule(data=st.data(), finished=st.booleans())
    def pod_ends(self, data: st.DataObject, finished: bool) -> None:
        uid = data.draw(st.sampled_from(sorted(self.bound)))
        view = self.bound.pop(uid)
        if finished:
            assert self.fleet.set_pod(replace(view, phase="Succeeded"))
        assert self.fleet.remove_pod(uid) is not finished

    @rule(node=st.sampled_from(NODES))
    def node_goes(self, node: str) -> None:
        assert self.fleet.remove_node(node) is (node in self.there)
        self.there.discard(node)

    @rule(node=st.sampled_from(NODES))
    def node_comes(self, node: str) -> None:
        assert self.fleet.set_node(node, self.cards[node]) is (node not in self.there)
        self.there.add(node)

    @rule(node=st.sampled_from(NODES), healthy=st.booleans(), data=st.data())
    def card_fails_or_recovers(self, node: str, healthy: bool, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.cards[node]) - 1))
        self.cards[node] = tuple(
            replace(card, healthy=healthy) if i == index else card for i, card in enumerate(self.cards[node])
        )
        if node in self.there:
            self.fleet.set_node(node, self.cards[node])

    @rule(seconds=st.integers(1, 4))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        late = {uid for uid in self.reserved if self.until[uid] <= self.now}
        assert set(self.fleet.expire(self.now)) == late
        for uid in late:
            del self.reserved[uid]

    @rule()
    def watch_begins_anew(self) -> None:
        """The list is as old as the last event that was seen: bindings on their way are not in it."""
        assert not self.fleet.sync_pods(self.bound.values())

    @rule()
    def restart(self) -> None:
        """Another scheduler takes over: it knows what the API server has, and nothing of what was reserved."""
        self.bound.update(self.binding)
        self.bound.update({uid: bound(pod(uid=uid), verdict) for uid, verdict in self.posting.items()})
        for known in (self.binding, self.posting, self.reserved):
            known.clear()
        again = Fleet()
        for view in self.bound.values():
            again.set_pod(view)
        for name in sorted(self.there):
            again.set_node(name, self.cards[name])
        self.fleet = again

    def held(self) -> dict[PodUid, FleetPlacement]:
        bound_ = {**self.bound, **self.binding}
        return {
            **{uid: FleetPlacement(view.node, view.slices) for uid, view in bound_.items() if view.slices},
            **self.posting,
            **self.reserved,
        }

    @invariant()
    def nobody_is_lost_or_doubled(self) -> None:
        assert {h.uid: FleetPlacement(h.node, h.slices) for h in self.fleet.holdings()} == self.held()
        assert set(self.fleet.nodes) == self.there

    @invariant()
    def the_kubelets_slots_are_counted(self) -> None:
        """Those of foreign pods too: a pod that fits on all cards with room gets them if so many slots are left."""
        shares = [(h.node, share) for h in self.held().values() for p in h.slices.values() for share in p.shares]
        for name in self.there:
            taken = sum(node == name for node, _ in shares)
            taken += sum(view.slots for view in self.bound.values() if view.node == name and not view.slices)
            left = sum(card.split_count for card in self.cards[name] if card.healthy) - taken
            least = SliceRequest(vram=Mib(1))
            wanted = sum(shortfall(least, state) is None for state in self.fleet.states(name))
            if not wanted:
                continue
            verdict = self.fleet.try_place(pod(replace(least, cards=wanted)), [name])
            if left >= wanted:
                assert placed(verdict).node == name
            else:
                assert refused(verdict).short == (NodesShort(NodeLack.KUBELET_SLOTS, 1, name, wanted, max(0, left)),)

    @invariant()
    def no_card_is_over_committed(self) -> None:
        shares = [(h.node, share) for h in self.held().values() for p in h.slices.values() for share in p.shares]
        for name in self.there:
            assert [state.card for state in self.fleet.states(name)] == list(self.cards[name])
            for state in self.fleet.states(name):
                mine = [share for node, share in shares if (node, share.uuid) == (name, state.card.uuid)]
                assert sum(share.vram for share in mine) == state.used_vram <= state.card.vram
                assert sum(share.cores for share in mine) == state.used_cores <= 100
                assert len(mine) == state.slices <= state.card.split_count
                assert len(mine) == 1 or not any(share.exclusive for share in mine)


TestFleet = FleetMachine.TestCase
TestFleet.settings = settings(max_examples=60, stateful_step_count=40)
