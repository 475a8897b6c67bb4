"""The scheduler's reason for a wait reaches the hub whole, and is said there in the language of whoever waits."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.cards import CardUuid
from hami_hub.core.codec import WireError
from hami_hub.core.explanation import no_room_from_json, no_room_to_json
from hami_hub.core.language import in_english, speaking
from hami_hub.core.messages import why_no_node
from hami_hub.core.nodes import CardsShort, FleetNoRoom, NearMiss, NodeLack, NodesShort
from hami_hub.core.placement import Lack
from hami_hub.core.pods import ContainerAsk
from hami_hub.languages import languages, translator

from .strategies import requests

names = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=80)
numbers = st.integers(0, 100_000)
lacks = st.sampled_from(NodeLack)
near = st.builds(NearMiss, node=names, uuid=names.map(CardUuid), model=names, asked=numbers, free=numbers)
no_rooms = st.builds(
    FleetNoRoom,
    asks=st.lists(st.builds(ContainerAsk, container=names, request=requests()), min_size=1, max_size=3).map(tuple),
    container=names,
    never=st.booleans(),
    nodes=numbers,
    cards=st.lists(
        st.builds(CardsShort, lack=st.sampled_from(Lack), cards=numbers, nodes=numbers, nearest=near), max_size=3
    ).map(tuple),
    short=st.lists(
        st.builds(NodesShort, lack=lacks, nodes=numbers, nearest=names, asked=numbers, free=numbers),
        max_size=3,
    ).map(tuple),
)


def carried(no_room: FleetNoRoom) -> FleetNoRoom:
    """As the scheduler's encoder writes it and the hub's reads it."""
    return no_room_from_json(json.loads(msgspec.json.encode(no_room_to_json(no_room))))


@given(no_rooms)
def test_the_hub_says_what_the_scheduler_would_have_said(no_room: FleetNoRoom) -> None:
    assert why_no_node(carried(no_room)) == why_no_node(no_room)


@pytest.mark.parametrize("language", languages()[1:])
@given(no_room=no_rooms)
def test_it_can_be_said_in_every_language(language: str, no_room: FleetNoRoom) -> None:
    english = why_no_node(no_room)
    with speaking(translator(language)):
        other = why_no_node(carried(no_room))
    assert other.endswith("。")
    # Where there are many reasons, as many are said as there is room for, which is not the same in all languages.
    assert in_english(other).split(":")[0] == english.split(":")[0]


@pytest.mark.parametrize("data", [None, 7, {}, {"asks": 1}, {"asks": [], "container": "", "never": 0, "nodes": None}])
def test_what_another_version_says_is_not_guessed_at(data: Any) -> None:
    with pytest.raises(WireError, match="can't be read"):
        no_room_from_json(data)
