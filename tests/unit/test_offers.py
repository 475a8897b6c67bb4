"""What each profile would come to on several nodes, from what the scheduler tells of their cards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from hami_hub.core.cards import CardState
from hami_hub.core.codec import WireError
from hami_hub.core.inventory import node_states
from hami_hub.core.offers import Availability, offers_on_nodes, unknown_offers
from hami_hub.core.profiles import parse_profiles

PROFILES = parse_profiles(
    [
        {"name": "cpu", "gpu": False},
        {"name": "small", "vram": "4 GiB", "cores": 25},
        {"name": "whole"},
        {"name": "pair", "vram": "4 GiB", "cards": 2},
        {"name": "huge", "vram": "64 GiB"},
        {"name": "staff", "vram": "1 GiB", "groups": ["staff"]},
        {"name": "other", "vram": "20 GiB", "min_vram": "1 GiB"},
    ]
)


def card(index: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "uuid": f"GPU-{index}", "index": index, "model": "Tesla T4", "vram": 15360, "splitCount": 10, "healthy": True,
        "usedVram": 0, "usedCores": 0, "slices": 0, "exclusive": False, **more,
    }  # fmt: skip


def inventory(*nodes: list[dict[str, Any]], ready: bool = True) -> dict[str, Any]:
    return {"nodes": [{"name": f"n{i}", "ready": ready, "cards": cards} for i, cards in enumerate(nodes)]}


def why_not(nodes: Mapping[str, Sequence[CardState]], **asked: Any) -> str:
    """What is said of a profile that asks for that; empty if it starts now."""
    (offer,) = offers_on_nodes(parse_profiles([{"name": "it", **asked}]), nodes)
    return offer.text


def found(told: dict[str, Any]) -> dict[str, Availability]:
    return {str(offer.profile.name): offer.availability for offer in offers_on_nodes(PROFILES, node_states(told))}


NOW, WAITS, NEVER, CLOSED = Availability.NOW, Availability.WAITS, Availability.NEVER, Availability.CLOSED


@pytest.mark.parametrize(
    ("told", "small", "whole", "pair", "other"),
    [
        pytest.param(inventory([card()], [card()]), NOW, NOW, NEVER, WAITS, id="a card on each of two nodes"),
        pytest.param(inventory([card(), card(1)]), NOW, NOW, NOW, WAITS, id="two cards on a node"),
        pytest.param(inventory([card(usedVram=12000, slices=1)] * 2), WAITS, WAITS, WAITS, WAITS, id="nearly full"),
        pytest.param(inventory([card(healthy=False)]), WAITS, WAITS, NEVER, WAITS, id="out of order"),
        pytest.param(inventory([card()], ready=False), WAITS, WAITS, NEVER, WAITS, id="node not ready"),
        pytest.param(inventory([card(cordoned=True)]), WAITS, WAITS, NEVER, WAITS, id="closed"),
        pytest.param(inventory(), WAITS, WAITS, WAITS, WAITS, id="no node yet"),
    ],
)
def test_what_profiles_come_to(
    told: dict[str, Any], small: Availability, whole: Availability, pair: Availability, other: Availability
) -> None:
    offered = found(told)
    huge = offered.pop("huge")
    assert huge is (NEVER if told["nodes"] else WAITS)
    assert offered == {"cpu": NOW, "small": small, "whole": whole, "pair": pair, "staff": CLOSED, "other": other}


def test_the_nearest_node_is_told() -> None:
    nodes = node_states(
        inventory(
            [card(usedVram=15000, slices=1), card(1, usedVram=15000, slices=1)],
            [card(usedVram=12288, slices=1), card(1)],
        )
    )
    assert "has 3 GiB free, 4 GiB are asked for" in why_not(nodes, cards=2, vram="4 GiB")
    assert why_not(nodes, vram="4 GiB") == ""
    assert "not a card that was asked for" in why_not(nodes, vram="4 GiB", models=["H200"])


def test_too_few_cards_on_any_node() -> None:
    nodes = node_states(inventory([card()], [card()]))
    assert why_not(nodes, cards=2) == (
        "2 whole cards can never fit here: 2 cards are asked for, no node has more than 1. Pick another profile."
    )


def test_without_cards_the_words_are_about_the_cluster() -> None:
    assert why_not({}).startswith("The cluster offers no GPU now.")


def test_where_the_scheduler_can_not_be_asked_everything_open_may_be_picked() -> None:
    offered = {str(offer.profile.name): offer for offer in unknown_offers(PROFILES)}
    assert offered["cpu"].availability is NOW
    assert offered["staff"].availability is CLOSED
    assert offered["huge"].availability is Availability.UNKNOWN
    assert offered["huge"].selectable


@pytest.mark.parametrize(
    "told",
    [{}, {"nodes": None}, {"nodes": [{"name": "n"}]}, {"nodes": [{"name": "n", "ready": True, "cards": [{}]}]}, []],
)
def test_an_answer_of_another_kind_is_an_error_in_words(told: Any) -> None:
    with pytest.raises(WireError, match="same version"):
        node_states(told)
