"""HAMi's wire formats: what it writes is understood, what is written it would understand."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.codec import (
    RequestDefaults,
    WireError,
    decode_devices,
    decode_node_register,
    encode_devices,
    encode_node_register,
    environment,
    request_from_resources,
)
from hami_hub.core.names import ResourceNames
from hami_hub.core.slices import CardPolicy, CardShare, CorePolicy, Placement, Priority
from hami_hub.core.units import AmountError, Mib, Percent

from .strategies import cards, placements, shares

T4 = Card(uuid=CardUuid("GPU-0"), index=0, model="Tesla T4", vram=Mib(15360))


def test_a_t4_is_registered_as_hami_does() -> None:
    assert json.loads(encode_node_register([T4])) == [
        {
            "id": "GPU-0", "count": 10, "devmem": 15360, "devcore": 100,
            "type": "NVIDIA-Tesla T4", "mode": "hami-core", "health": True,
        }
    ]  # fmt: skip


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


def test_gpumem_and_gpucores() -> None:
    request = request_from_resources({"nvidia.com/gpu": 1, "nvidia.com/gpumem": "4000", "nvidia.com/gpucores": 30})
    assert request is not None
    assert (request.cards, request.vram, request.cores, request.exclusive) == (1, 4000, 30, False)


def test_a_gpu_alone_is_a_whole_card() -> None:
    request = request_from_resources({"nvidia.com/gpu": 1})
    assert request is not None
    assert request.whole


def test_percentage_of_memory() -> None:
    request = request_from_resources({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 50})
    assert request is not None
    assert request.vram_of(T4) == 7680


def test_memory_without_a_count_asks_for_the_default_count() -> None:
    limits = {"nvidia.com/gpumem": 4000}
    request = request_from_resources(limits)
    assert request is not None
    assert request.cards == 1
    assert request_from_resources(limits, defaults=RequestDefaults(count=0)) is None


def test_defaults_fill_what_is_not_said() -> None:
    request = request_from_resources(
        {"nvidia.com/gpu": 1}, defaults=RequestDefaults(memory=Mib(2000), cores=Percent(10))
    )
    assert request is not None
    assert (request.vram, request.cores) == (2000, 10)


def test_a_pod_that_asks_for_nothing_of_ours() -> None:
    assert request_from_resources({"cpu": "1", "memory": "4Gi"}) is None


def test_renamed_resources() -> None:
    names = ResourceNames(count="example.com/card", memory="example.com/mem")
    request = request_from_resources({"example.com/card": 2, "example.com/mem": 100}, names=names)
    assert request is not None
    assert (request.cards, request.vram) == (2, 100)


def test_priority_0_is_high() -> None:
    high = request_from_resources({"nvidia.com/gpu": 1, "nvidia.com/priority": 0})
    low = request_from_resources({"nvidia.com/gpu": 1})
    assert high is not None
    assert low is not None
    assert (high.priority, low.priority) == (Priority.HIGH, Priority.LOW)


def test_wishes_and_policy_come_from_annotations() -> None:
    request = request_from_resources(
        {"nvidia.com/gpu": 1},
        {
            "nvidia.com/use-gputype": "A100, t4",
            "nvidia.com/nouse-gpuuuid": "GPU-1",
            "hami.io/gpu-scheduler-policy": "spread,numa",
        },
    )
    assert request is not None
    assert request.wishes.models == ("A100", "t4")
    assert request.wishes.allow(T4)
    assert request.wishes.not_uuids == ("GPU-1",)
    assert request.card_policy is CardPolicy.SPREAD


@pytest.mark.parametrize(
    "limits",
    [
        {"nvidia.com/gpu": "-1"},
        {"nvidia.com/gpu": "1.5"},
        {"nvidia.com/gpu": "9" * 30},
        {"nvidia.com/gpumem": "4Gi"},
        {"nvidia.com/gpumem-percentage": 101},
    ],
)  # fmt: skip
def test_numbers_out_of_range_name_the_resource(limits: dict[str, str | int]) -> None:
    with pytest.raises(AmountError, match=r"nvidia\.com/"):
        request_from_resources(limits)


@given(placements)
def test_the_environment_of_a_placement(placement: Placement) -> None:
    variables = environment(placement)
    for index, share in enumerate(placement.shares):
        assert variables[f"CUDA_DEVICE_MEMORY_LIMIT_{index}"] == f"{share.vram}m"
    assert variables["CUDA_TASK_PRIORITY"] == str(int(placement.priority))
    assert ("GPU_CORE_UTILIZATION_POLICY" in variables) == (placement.policy is not CorePolicy.DEFAULT)
