"""Hypothesis strategies for cards and slice requests, shared by the tests of `hami_hub.core`."""

from __future__ import annotations

from hypothesis import strategies as st

from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.slices import (
    CardPolicy,
    CardShare,
    CardWishes,
    CorePolicy,
    NodePolicy,
    Placement,
    Priority,
    SliceId,
    SliceRequest,
)
from hami_hub.core.units import Mib, Percent

MODELS = ("Tesla T4", "NVIDIA A10", "NVIDIA H200")


@st.composite
def cards(draw: st.DrawFn, *, max_cards: int = 4, cordons: bool = False) -> list[Card]:
    count = draw(st.integers(1, max_cards))
    return [
        Card(
            uuid=CardUuid(f"GPU-{index:08d}"),
            index=index,
            model=draw(st.sampled_from(MODELS)),
            vram=Mib(draw(st.sampled_from([4096, 15360, 23028]))),
            split_count=draw(st.integers(1, 10)),
            healthy=draw(st.integers(0, 9)) > 0,
            cordoned=cordons and draw(st.integers(0, 9)) == 0,
        )
        for index in range(count)
    ]


_uuids = st.lists(st.integers(0, 3).map(lambda index: CardUuid(f"GPU-{index:08d}")), max_size=2).map(tuple)
wishes = st.just(CardWishes()) | st.builds(
    CardWishes,
    models=st.lists(st.sampled_from(["t4", "A10", "H200"]), max_size=2).map(tuple),
    not_models=st.lists(st.sampled_from(["t4", "A10"]), max_size=1).map(tuple),
    uuids=_uuids,
    not_uuids=_uuids,
)


@st.composite
def requests(draw: st.DrawFn, *, max_cards: int = 3) -> SliceRequest:
    kind = draw(st.sampled_from(["mib", "percent", "whole"]))
    return SliceRequest(
        cards=draw(st.integers(1, max_cards)),
        vram=Mib(draw(st.integers(1, 25_000))) if kind == "mib" else None,
        vram_percent=Percent(draw(st.integers(1, 100))) if kind == "percent" else None,
        cores=Percent(draw(st.sampled_from([0, 1, 10, 25, 50, 99, 100]))),
        priority=draw(st.sampled_from(Priority)),
        policy=draw(st.sampled_from(CorePolicy)),
        card_policy=draw(st.sampled_from(CardPolicy)),
        wishes=draw(wishes),
        oom_killer=draw(st.booleans()),
        empty_card=draw(st.integers(0, 9)) == 0,
    )


holders = st.sampled_from([SliceId(f"user{i}/") for i in range(8)])

shares = st.builds(
    CardShare,
    uuid=st.from_regex(r"GPU-[0-9a-f]{8}", fullmatch=True).map(CardUuid),
    vram=st.integers(1, 200_000).map(Mib),
    cores=st.integers(0, 99).map(Percent),
)

placements = st.builds(
    Placement,
    shares=st.lists(shares, max_size=4).map(tuple),
    priority=st.sampled_from(Priority),
    policy=st.sampled_from(CorePolicy),
    oom_killer=st.booleans(),
)

node_policies = st.sampled_from(NodePolicy)
