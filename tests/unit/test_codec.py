"""HAMi's wire formats: what it writes is understood, what is written it would understand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.cards import Card, CardUuid, scaled_vram
from hami_hub.core.codec import (
    WireError,
    cards_of_node,
    decision_annotations,
    decode_devices,
    decode_node_register,
    decode_slices,
    encode_devices,
    encode_node_register,
    encode_slices,
    environment,
)
from hami_hub.core.slices import CardShare, CorePolicy, Placement, Priority
from hami_hub.core.units import Mib, Percent

from .strategies import cards, placements, shares

T4 = Card(uuid=CardUuid("GPU-0"), index=0, model="Tesla T4", vram=Mib(15360))


def test_a_t4_is_registered_as_hami_does() -> None:
    assert json.loads(encode_node_register([T4])) == [
        {
            "id": "GPU-0", "count": 10, "devmem": 15360, "devcore": 100,
            "type": "NVIDIA-Tesla T4", "mode": "hami-core", "health": True,
        }
    ]  # fmt: skip


def test_the_register_is_in_the_order_of_the_index_so_that_equal_cards_are_equal_text() -> None:
    other = Card(uuid=CardUuid("GPU-1"), index=1, model="Tesla T4", vram=Mib(15360), numa=1)
    assert encode_node_register([other, T4]) == encode_node_register([T4, other])
    assert decode_node_register(encode_node_register([other, T4])) == (T4, other)


def test_cards_in_mig_mode_are_not_cut_into_slices() -> None:
    text = json.dumps(
        [
            {"id": "GPU-0", "count": 7, "devmem": 40960, "type": "NVIDIA-A100", "mode": "mig", "health": True},
            {"id": "GPU-1", "count": 10, "devmem": 40960, "type": "NVIDIA-A100", "mode": "hami-core", "health": True},
        ]
    )
    assert [card.uuid for card in decode_node_register(text)] == ["GPU-1"]


def test_the_register_of_colons_is_read() -> None:
    cards_ = decode_node_register(
        "GPU-0,10,15360,100,NVIDIA-Tesla T4,1,true,3,hami-core:GPU-1,10,15360,100,NVIDIA-Tesla T4,0,false:"
    )
    assert cards_ == (
        Card(uuid=CardUuid("GPU-0"), index=3, model="Tesla T4", vram=Mib(15360), numa=1),
        Card(uuid=CardUuid("GPU-1"), index=1, model="Tesla T4", vram=Mib(15360), healthy=False),
    )


@pytest.mark.parametrize(("scaling", "vram"), [("1", 15360), ("1.5", 23040), ("1.001", 15375), ("0.1", 1536)])
def test_a_card_may_count_as_so_many_times_its_memory(scaling: str, vram: int) -> None:
    assert scaled_vram(Mib(15360), scaling) == vram


def test_an_admin_may_close_cards_of_a_node() -> None:
    two = [T4, Card(uuid=CardUuid("GPU-1"), index=1, model="Tesla T4", vram=Mib(15360))]
    node = {"hami.io/node-nvidia-register": encode_node_register(two), "hami.io/device-cordon": "GPU-1, GPU-9"}
    assert [card.cordoned for card in cards_of_node(node)] == [False, True]
    assert cards_of_node({"hami.io/device-cordon": "GPU-1"}) == ()


def test_a_card_without_health_is_ill() -> None:
    (card,) = decode_node_register('[{"id":"GPU-0","devmem":1,"type":"NVIDIA A100","count":2}]')
    assert not card.healthy
    assert (card.index, card.model) == (0, "NVIDIA A100")


@given(cards())
def test_cards_survive_the_annotation(on: list[Card]) -> None:
    assert list(decode_node_register(encode_node_register(on))) == on


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}x",
        "[1]",
        '[{"id":"a"}]',
        "null",
        '[{"id":"a","type":"b","devmem":"1"}]',
        '[{"id":"a","type":"b","devmem":-1}]',
        '[{"id":"../a","type":"b","devmem":1}]',
        '[{"id":"a","type":"b","devmem":1},{"id":"a","type":"b","devmem":1}]',
        '[{"id":"a","type":"b","devmem":99999999999}]',
        "[" * 5000,
        "GPU-0,10",
        "GPU-0,x,1,1,T4,0,true:",
    ],
)
def test_a_wrong_annotation_is_refused_in_words(text: str) -> None:
    with pytest.raises(WireError):
        decode_node_register(text)


@given(st.lists(st.lists(shares, max_size=3).map(tuple), max_size=3).map(tuple))
def test_devices_survive_the_annotation(containers: tuple[tuple[CardShare, ...], ...]) -> None:
    expected = list(containers)
    while expected and not expected[-1]:
        expected.pop()
    assert list(decode_devices(encode_devices(containers))) == expected


def test_devices_as_hami_writes_them() -> None:
    text = ";GPU-x,NVIDIA,3000,30:GPU-y,NVIDIA,3000,30:;;;"
    empty, two = decode_devices(text)
    assert empty == ()
    assert [(s.uuid, s.vram, s.cores) for s in two] == [("GPU-x", 3000, 30), ("GPU-y", 3000, 30)]


@pytest.mark.parametrize("text", ["GPU-x", "GPU-x,NVIDIA,1:", "GPU-x,NVIDIA,-1,0:", "GPU-x,NVIDIA,٤,0:", "a,b,c,d:"])
def test_wrong_devices_are_refused_in_words(text: str) -> None:
    with pytest.raises(WireError, match="Expected UUID,NVIDIA,MiB,cores"):
        decode_devices(text)


different_cards = placements.filter(lambda p: p.shares and len({share.uuid for share in p.shares}) == len(p.shares))


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), different_cards, max_size=3))
def test_slices_survive_the_annotation(held: dict[str, Placement]) -> None:
    text = encode_slices(held)
    assert decode_slices(text) == held
    assert all(placement.node == "n" for placement in decode_slices(text, "n").values())


GOOD = {
    "main": {
        "shares": [{"uuid": "GPU-0", "vram": 4096, "cores": 25, "exclusive": False, "whole": False}],
        "priority": 1,
        "policy": "default",
        "oomKiller": True,
    }
}


def changed(path: str, value: object) -> str:
    """GOOD with one thing other; a value of `...` removes it."""
    data = json.loads(json.dumps(GOOD))
    at = data
    *way, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    for step in way:
        at = at[step]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return json.dumps(data)


def test_slices_are_named_by_container() -> None:
    held = decode_slices(json.dumps(GOOD), "node-a")
    share = CardShare(CardUuid("GPU-0"), Mib(4096), Percent(25))
    assert held == {"main": Placement((share,), Priority.LOW, CorePolicy.DEFAULT, "node-a", oom_killer=True)}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("[]", id="a list"),
        pytest.param('{"main": 1}', id="a number for a container"),
        pytest.param("[" * 10_000, id="nested without end"),
        pytest.param(changed("main/shares", []), id="no share"),
        pytest.param(changed("main/shares", [GOOD["main"]["shares"][0]] * 2), id="a card twice"),  # type: ignore[index]
        pytest.param(changed("main/shares/0/uuid", "../../etc"), id="a uuid that is a path"),
        pytest.param(changed("main/shares/0/uuid", 7), id="a uuid that is a number"),
        pytest.param(changed("main/shares/0/vram", 0), id="no VRAM"),
        pytest.param(changed("main/shares/0/vram", -1), id="negative VRAM"),
        pytest.param(changed("main/shares/0/vram", 4096.0), id="VRAM with a point"),
        pytest.param(changed("main/shares/0/vram", True), id="VRAM true"),
        pytest.param(changed("main/shares/0/vram", "4096"), id="VRAM as text"),
        pytest.param(changed("main/shares/0/cores", 101), id="too many cores"),
        pytest.param(changed("main/shares/0/exclusive", 1), id="exclusive 1"),
        pytest.param(changed("main/shares/0/whole", ...), id="whole missing"),
        pytest.param(changed("main/priority", 2), id="another priority"),
        pytest.param(changed("main/policy", "none"), id="another policy"),
        pytest.param(changed("main/oomKiller", None), id="no OOM killer"),
    ],
)
def test_slices_that_are_not_exactly_right_are_refused(text: str) -> None:
    with pytest.raises(WireError, match=r"hami\.io/slices"):
        decode_slices(text)


def test_a_binding_says_it_for_us_and_for_hami() -> None:
    held = decode_slices(json.dumps(GOOD), "node-a")
    written = decision_annotations("node-a", held, ["setup", "main", "helper"], at=1_700_000_000)
    assert written["hami.io/vgpu-node"] == "node-a"
    assert written["hami.io/vgpu-time"] == "1700000000"
    assert written["hami.io/vgpu-devices-allocated"] == ";GPU-0,NVIDIA,4096,25:;;"
    assert decode_slices(written["hami.io/slices"], "node-a") == held


@given(placements)
def test_the_environment_of_a_placement(placement: Placement) -> None:
    variables = environment(placement)
    for index, share in enumerate(placement.shares):
        assert variables[f"CUDA_DEVICE_MEMORY_LIMIT_{index}"] == f"{share.vram}m"
    assert variables["CUDA_TASK_PRIORITY"] == str(int(placement.priority))
    assert ("GPU_CORE_UTILIZATION_POLICY" in variables) == (placement.policy is not CorePolicy.DEFAULT)
