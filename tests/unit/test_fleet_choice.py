"""Which node and card of those that fit: least fragmentation, or HAMi's policies by name; and the words if none."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.fleet import Fleet
from hami_hub.core.messages import describe_pod, placed_on, why_no_node
from hami_hub.core.nodes import FleetNoRoom, FleetPlacement, NodeLack
from hami_hub.core.placement import Lack
from hami_hub.core.pods import ContainerAsk, PodUid, PodView
from hami_hub.core.slices import CardPolicy, CardShare, CardWishes, NodePolicy, Placement, SliceRequest
from hami_hub.core.typical import Shape, TypicalPods
from hami_hub.core.units import Mib, Percent


def t4(node: str, index: int = 0, **more: object) -> Card:
    return Card(CardUuid(f"GPU-{node}-{index}"), index, "Tesla T4", Mib(15360), **more)  # type: ignore[arg-type]


def gib(amount: int, cores: int = 0, **more: object) -> SliceRequest:
    return SliceRequest(vram=Mib(amount * 1024), cores=Percent(cores), **{"card_policy": CardPolicy.FGD, **more})  # type: ignore[arg-type]


WHOLE = SliceRequest(card_policy=CardPolicy.FGD)


def pod(*asks: SliceRequest, uid: str = "uid", **more: object) -> PodView:
    named = tuple(ContainerAsk(f"c{i}", request) for i, request in enumerate(asks))
    return PodView(namespace="ns", name=uid, uid=PodUid(uid), asks=named, **more)  # type: ignore[arg-type]


def usually(*requests: SliceRequest, cpu: int = 0) -> TypicalPods:
    return TypicalPods([(Shape.of(request, cpu), 1) for request in requests])


def fleet_of(nodes: dict[str, int], typical: TypicalPods | None = None, **more: object) -> Fleet:
    """So many T4 on each node."""
    fleet = Fleet(typical)
    for name, count in nodes.items():
        fleet.set_node(name, [t4(name, index) for index in range(count)], **more)  # type: ignore[arg-type]
    return fleet


def hold(fleet: Fleet, node: str, index: int, vram: int, cores: int = 0) -> None:
    share = CardShare(CardUuid(f"GPU-{node}-{index}"), Mib(vram * 1024), Percent(cores))
    fleet.set_pod(pod(uid=f"{node}-{index}-{vram}", node=node, slices={"c": Placement((share,), node=node)}, slots=1))


def where(verdict: FleetPlacement | FleetNoRoom) -> tuple[str, list[str]]:
    assert isinstance(verdict, FleetPlacement), verdict
    return verdict.node, [share.uuid for held in verdict.slices.values() for share in held.shares]


def no_room(verdict: FleetPlacement | FleetNoRoom) -> FleetNoRoom:
    assert isinstance(verdict, FleetNoRoom), verdict
    return verdict


def test_a_slice_goes_where_the_rest_stays_useful() -> None:
    """8 GiB are typical, a has 11 free and b 12: 3 GiB leave 8 on a, 4 GiB on b; the other way round is scrap."""
    fleet = fleet_of({"a": 1, "b": 1}, usually(gib(8)))
    hold(fleet, "a", 0, 4)
    hold(fleet, "b", 0, 3)
    assert where(fleet.try_place(pod(gib(3))))[0] == "a"
    assert where(fleet.try_place(pod(gib(4))))[0] == "b"


def test_cores_that_a_typical_slice_would_miss_are_not_taken() -> None:
    """Both cards have 8 GiB free, a 80 % and b 50 % of their time; 40 % are typical."""
    fleet = fleet_of({"a": 1, "b": 1}, usually(gib(4, 40)))
    hold(fleet, "a", 0, 7, 20)
    hold(fleet, "b", 0, 7, 50)
    assert where(fleet.try_place(pod(gib(1, 15))))[0] == "a"
    assert where(fleet.try_place(pod(gib(1, 5))))[0] == "b"


def test_of_equal_nodes_the_fuller_is_taken_and_of_those_the_first_by_name() -> None:
    fleet = fleet_of({"c": 2, "b": 2, "a": 2}, usually(WHOLE))
    assert where(fleet.try_place(pod(WHOLE))) == ("a", ["GPU-a-0"])
    hold(fleet, "b", 0, 15)
    assert where(fleet.try_place(pod(WHOLE))) == ("b", ["GPU-b-1"])


def test_a_pair_of_free_cards_is_kept_for_those_who_want_two() -> None:
    fleet = fleet_of({"a": 2, "b": 2}, usually(SliceRequest(cards=2)))
    hold(fleet, "b", 0, 10)
    assert where(fleet.try_place(pod(WHOLE)))[0] == "b"
    assert where(fleet.try_place(pod(gib(8)))) == ("b", ["GPU-b-1"])
    assert where(fleet.try_place(pod(SliceRequest(cards=2))))[0] == "a"


def test_cards_are_not_left_without_cpu() -> None:
    """Node a has CPU for one more typical pod; a pod that needs much of it goes where it doesn't matter."""
    fleet = Fleet(usually(gib(4), cpu=8000))
    fleet.set_node("a", [t4("a")], cpu=10_000)
    fleet.set_node("b", [t4("b")], cpu=30_000)
    assert where(fleet.try_place(pod(gib(4), cpu=4000)))[0] == "b"
    assert where(fleet.try_place(pod(gib(4), cpu=1000)))[0] == "a"
    assert where(fleet.try_place(pod(cpu=4000)))[0] == "b"
    fleet.set_bystanders("b", 29_000)
    assert where(fleet.try_place(pod(gib(4), cpu=4000)))[0] == "b"


@pytest.mark.parametrize(
    ("policy", "node"), [(NodePolicy.BINPACK, "b"), (NodePolicy.SPREAD, "c")], ids=lambda value: str(value)
)
def test_node_policies_take_the_fullest_or_the_emptiest_node(policy: NodePolicy, node: str) -> None:
    fleet = fleet_of({"a": 2, "b": 2, "c": 2}, usually(gib(12)))
    hold(fleet, "a", 0, 2)
    hold(fleet, "b", 0, 8)
    assert where(fleet.try_place(pod(gib(2), node_policy=policy)))[0] == node
    assert where(fleet.try_place(pod(gib(2), gib(1), node_policy=policy)))[0] == node


@pytest.mark.parametrize(
    ("policy", "card"), [(CardPolicy.BINPACK, "GPU-a-1"), (CardPolicy.SPREAD, "GPU-a-2")], ids=lambda value: str(value)
)
def test_card_policies_take_the_fullest_or_the_emptiest_card(policy: CardPolicy, card: str) -> None:
    fleet = fleet_of({"a": 3}, usually(gib(12)))
    hold(fleet, "a", 0, 2)
    hold(fleet, "a", 1, 8)
    assert where(fleet.try_place(pod(gib(2, card_policy=policy)))) == ("a", [card])


def test_a_pod_that_wants_an_empty_card_gets_one_that_others_may_join() -> None:
    fleet = fleet_of({"a": 2})
    hold(fleet, "a", 0, 1)
    assert where(fleet.reserve(pod(gib(2, empty_card=True)), None, until=1)) == ("a", ["GPU-a-1"])
    assert no_room(fleet.try_place(pod(gib(2, empty_card=True), uid="next"))).cards[0].lack is Lack.EMPTY
    assert where(fleet.try_place(pod(gib(13), uid="other"))) == ("a", ["GPU-a-1"])


def test_wishes_choose_models_and_cards() -> None:
    fleet = fleet_of({"a": 2})
    fleet.set_node("b", [Card(CardUuid("GPU-b-0"), 0, "NVIDIA A10", Mib(23028))])
    wanted = [
        (CardWishes(models=("a10",)), "GPU-b-0"),
        (CardWishes(not_models=("t4",)), "GPU-b-0"),
        (CardWishes(uuids=(CardUuid("GPU-a-1"),)), "GPU-a-1"),
        (CardWishes(not_uuids=(CardUuid("GPU-a-0"), CardUuid("GPU-b-0"))), "GPU-a-1"),
    ]
    for wishes, card in wanted:
        assert where(fleet.try_place(pod(gib(2, wishes=wishes))))[1] == [card]
    absent = no_room(fleet.try_place(pod(gib(2, wishes=CardWishes(models=("H200",))))))
    assert (absent.never, absent.reason) == (True, "never")


def test_containers_of_one_pod_share_a_node_and_may_share_a_card() -> None:
    fleet = fleet_of({"a": 1, "b": 2})
    verdict = fleet.try_place(pod(WHOLE, gib(4), gib(4)))
    assert isinstance(verdict, FleetPlacement)
    assert verdict.node == "b"
    assert [held.shares[0].uuid for held in verdict.slices.values()] == ["GPU-b-0", "GPU-b-1", "GPU-b-1"]


def test_containers_are_tried_in_every_way_before_no_is_said() -> None:
    """The larger one fits both cards and would be packed on to the one that the other needs."""
    fleet = fleet_of({"a": 2})
    hold(fleet, "a", 0, 7, 10)  # 8 GiB, 90 %
    hold(fleet, "a", 1, 3, 80)  # 12 GiB, 20 %
    _, cards = where(
        fleet.try_place(pod(gib(8, 10, card_policy=CardPolicy.BINPACK), gib(4, 85, card_policy=CardPolicy.BINPACK)))
    )
    assert cards == ["GPU-a-1", "GPU-a-0"]
    together = no_room(fleet.try_place(pod(gib(8, 85), gib(8, 85))))
    assert [short.lack for short in together.short] == [NodeLack.TOGETHER]
    assert not together.never
    assert no_room(fleet.try_place(pod(WHOLE, WHOLE, WHOLE))).never


def test_only_candidates_are_taken_in_whatever_order_they_come() -> None:
    fleet = fleet_of({f"node-{i:02d}": 2 for i in range(20)})
    names = [f"node-{i:02d}" for i in range(20)]
    for i in range(40):
        hold(fleet, names[i % 20], i % 2, 1 + i % 7)
    rng = random.Random(7)
    for request in (gib(3), gib(8, 50), WHOLE, gib(2, cards=2)):
        for policy in NodePolicy:
            some = rng.sample(names, 8)
            answers = set()
            for _ in range(5):
                rng.shuffle(some)
                node, cards = where(fleet.try_place(pod(request, node_policy=policy), [*some, "elsewhere"]))
                assert node in some
                answers.add((node, *cards))
            assert len(answers) == 1


def test_an_answer_that_was_calculated_before_is_what_a_new_fleet_answers() -> None:
    """Rankings are kept from one request to the next and brought up to date where a node changed."""
    rng = random.Random(3)
    typical: Sequence[SliceRequest] = (gib(2), gib(4, 25), gib(8, 50), WHOLE, gib(4, cards=2))
    fleet = fleet_of({f"n{i}": 4 for i in range(12)}, usually(*typical))
    running: list[PodView] = []
    for step in range(120):
        view = pod(rng.choice(typical), uid=f"p{step}", cpu=rng.choice([0, 500]))
        verdict = fleet.reserve(view, None, until=1)
        again = fleet_of({f"n{i}": 4 for i in range(12)}, usually(*typical))
        for held in running:
            again.set_pod(held)
        assert again.try_place(view) == verdict
        if isinstance(verdict, FleetPlacement):
            slots = sum(len(held.shares) for held in verdict.slices.values())
            running.append(
                PodView(namespace="ns", name=view.name, uid=view.uid, node=verdict.node, slices=verdict.slices,
                        slots=slots, cpu=view.cpu)
            )  # fmt: skip
        if rng.random() < 0.3 and running:
            fleet.release(running.pop(rng.randrange(len(running))).uid)


def test_foreign_pods_use_slots_and_no_card() -> None:
    fleet = fleet_of({"a": 1})
    fleet.set_pod(pod(uid="foreign", node="a", slots=10))
    short = no_room(fleet.try_place(pod(gib(1))))
    assert (short.short[0].lack, short.reason) == (NodeLack.KUBELET_SLOTS, "kubelet-slots")
    assert fleet.states("a")[0].free_vram == 15360
    assert "pods without a slice use up the slots" in why_no_node(short)


def test_the_kubelet_may_offer_less_than_the_cards_have() -> None:
    fleet = fleet_of({"a": 1}, slots=0)
    assert isinstance(fleet.try_place(pod(gib(1))), FleetNoRoom)
    fleet.set_node("a", [t4("a")], slots=1)
    assert isinstance(fleet.reserve(pod(gib(1)), None, until=1), FleetPlacement)
    assert isinstance(fleet.try_place(pod(gib(1), uid="next")), FleetNoRoom)


def test_words_name_the_card_that_fell_short_and_by_how_much() -> None:
    fleet = fleet_of({"node-a": 1, "node-b": 2})
    for node, index in (("node-a", 0), ("node-b", 0), ("node-b", 1)):
        hold(fleet, node, index, 13 + (node == "node-b"))
    text = why_no_node(no_room(fleet.try_place(pod(gib(4, 25)), ["node-a", "node-b", "cpu-only"])))
    assert text == (
        "4 GiB · 25 % is not free on 3 nodes: 3 cards on 2 nodes have too little VRAM free: 2 GiB at best, "
        "4 GiB asked for (node-a, GPU-node-a-0); 1 node offers no cards. "
        "It starts when a slice ends, or ask for 2 GiB or less."
    )


def test_words_for_what_can_never_be() -> None:
    fleet = fleet_of({"a": 2})
    assert why_no_node(no_room(fleet.try_place(pod(gib(16))))) == (
        "16 GiB can never fit in this cluster as it is: 2 cards on 1 node are too small: 15 GiB in all, "
        "16 GiB asked for (a, GPU-a-0). Ask for 15 GiB or less."
    )
    many = no_room(fleet.try_place(pod(gib(4, cards=3))))
    assert many.never
    assert "on 1 node too few cards fit: 2 at best, 3 asked for (a)" in why_no_node(many)


def test_a_card_that_is_ill_or_closed_may_come_back_so_never_is_not_said() -> None:
    fleet = Fleet()
    assert not no_room(fleet.try_place(pod(gib(1)))).never
    fleet.set_node("a", [t4("a", 0, healthy=False), t4("a", 1, cordoned=True)])
    short = no_room(fleet.try_place(pod(gib(1))))
    assert not short.never
    text = why_no_node(short)
    assert "1 card on 1 node is out of order" in text
    assert "1 card on 1 node is closed by an admin" in text


def test_words_about_a_container_of_several() -> None:
    fleet = fleet_of({"a": 1})
    hold(fleet, "a", 0, 10)
    view = pod(gib(1), gib(8))
    assert describe_pod(view.asks) == "c0: 1 GiB; c1: 8 GiB"
    assert "container c1, 1 card on 1 node has too little VRAM free" in why_no_node(no_room(fleet.try_place(view)))


def test_words_stay_within_an_event_at_5000_nodes_of_long_names() -> None:
    fleet = Fleet()
    for i in range(5000):
        uuids = [CardUuid(f"GPU-{i}-{j}" + "u" * 80) for j in range(5)]
        vram = Mib(15360 + 4 * (i % 2))
        fleet.set_node(
            f"{i:04d}" + "n" * 249,
            [
                Card(uuids[0], 0, "Tesla T4", vram, healthy=False),
                Card(uuids[1], 1, "Tesla T4", vram, cordoned=True),
                Card(uuids[2], 2, "Tesla T4", vram),
                Card(uuids[3], 3, "Tesla T4", vram, split_count=0),
                Card(uuids[4], 4, "other", vram),
            ],
        )
    asks = [gib(15, 1, wishes=CardWishes(not_models=("other",))) for _ in range(12)]
    text = why_no_node(no_room(fleet.try_place(pod(*asks))))
    assert len(text.encode()) <= 1024


def test_where_a_pod_went() -> None:
    fleet = fleet_of({"a": 2})
    verdict = fleet.try_place(pod(gib(4, 25), WHOLE))
    assert isinstance(verdict, FleetPlacement)
    assert placed_on(verdict) == "a: c0 has 4 GiB · 25 % of GPU-a-1; c1 has all · 100 % of GPU-a-0"
