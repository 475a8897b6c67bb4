"""What a container asks for in Kubernetes' words, understood and said."""

from __future__ import annotations

import pytest
from hypothesis import given

from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.names import ResourceNames
from hami_hub.core.quantity import whole_quantity
from hami_hub.core.resources import (
    RequestDefaults,
    annotations_from_request,
    environment_from_request,
    node_policy,
    request_from_resources,
    resources_from_request,
)
from hami_hub.core.slices import CardPolicy, CorePolicy, NodePolicy, Priority, SliceRequest
from hami_hub.core.units import AmountError, Mib, Percent

from .strategies import requests

T4 = Card(uuid=CardUuid("GPU-0"), index=0, model="Tesla T4", vram=Mib(15360))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("4000", 4000), ("4k", 4000), ("4Ki", 4096), ("1e3", 1000), ("1E3", 1000), ("0.5k", 500), ("5e-1k", None),
        (".5k", 500), ("5.", 5), ("1500m", None), ("3000m", 3), ("-1", -1), ("+2", 2), ("1E", 10**18), (7, 7),
    ],
)  # fmt: skip
def test_quantities_as_the_api_server_writes_them(text: object, number: int | None) -> None:
    if number is None:
        with pytest.raises(AmountError):
            whole_quantity(text)
    else:
        assert whole_quantity(text) == number


@pytest.mark.parametrize(
    "text", ["", "k", "4kb", "four", "٤", "1e999", "9" * 99, "--1", "4 k", None, True, 1.5, [], {}]
)
def test_what_is_no_quantity_never_panics(text: object) -> None:
    with pytest.raises(AmountError, match="Write"):
        whole_quantity(text)


def test_an_amount_that_the_api_server_rewrote_is_the_same_amount() -> None:
    request = request_from_resources({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "4k"})
    assert request is not None
    assert request.vram == 4000


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


@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": "4Gi"}, r"gpumem is 4294967296 MiB.*write 4096 for 4 GiB"),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": "101"}, "is 101. Write a number from 0 to 100"),
        ({"nvidia.com/gpu": "-1"}, "is -1. Write"),
        ({"nvidia.com/gpu": "2k"}, "is 2000. Write a number from 0 to 1024"),
        ({"nvidia.com/gpu": "half"}, '"half" is no quantity'),
    ],
)
def test_a_number_out_of_range_is_told_with_what_would_do(limits: dict[str, object], rule: str) -> None:
    with pytest.raises(AmountError, match=rule):
        request_from_resources(limits)


@pytest.mark.parametrize(
    ("environment", "policy", "oom_killer"),
    [
        ({}, CorePolicy.DEFAULT, True),
        ({"GPU_CORE_UTILIZATION_POLICY": "FORCE", "ACTIVE_OOM_KILLER": "False"}, CorePolicy.FORCE, False),
        ({"GPU_CORE_UTILIZATION_POLICY": "disable", "ACTIVE_OOM_KILLER": "1"}, CorePolicy.DISABLE, True),
    ],
)
def test_variables_say_how_the_share_is_kept(environment: dict[str, str], policy: CorePolicy, oom_killer: bool) -> None:
    request = request_from_resources({"nvidia.com/gpu": 1}, {}, environment)
    assert request is not None
    assert (request.policy, request.oom_killer) == (policy, oom_killer)


@pytest.mark.parametrize("environment", [{"GPU_CORE_UTILIZATION_POLICY": "hard"}, {"ACTIVE_OOM_KILLER": "perhaps"}])
def test_a_variable_with_another_word_is_refused(environment: dict[str, str]) -> None:
    with pytest.raises(AmountError, match=r"Write (default, force or disable|true or false)"):
        request_from_resources({"nvidia.com/gpu": 1}, {}, environment)


@pytest.mark.parametrize(
    ("words", "policy", "empty_card"),
    [
        ("", CardPolicy.FGD, False),
        ("Spread", CardPolicy.SPREAD, False),
        ("numa,binpack,spread", CardPolicy.BINPACK, False),
        ("mutex, topology-aware", CardPolicy.FGD, True),
        ("rubbish", CardPolicy.FGD, False),
    ],
)
def test_the_card_policy_is_an_ordered_list(words: str, policy: CardPolicy, empty_card: bool) -> None:
    request = request_from_resources({"nvidia.com/gpu": 1}, {"hami.io/gpu-scheduler-policy": words})
    assert request is not None
    assert (request.card_policy, request.empty_card) == (policy, empty_card)


@pytest.mark.parametrize(
    ("word", "policy"), [("spread", NodePolicy.SPREAD), (" Binpack ", NodePolicy.BINPACK), ("x", NodePolicy.FGD)]
)
def test_the_node_policy_of_a_pod(word: str, policy: NodePolicy) -> None:
    assert node_policy({"hami.io/node-scheduler-policy": word}, NodePolicy.FGD) is policy


@given(requests())
def test_what_is_asked_in_kubernetes_words_is_what_was_meant(request_: SliceRequest) -> None:
    """Whatever the cluster's defaults are: a spawner that says all of it gets what the profile says."""
    names = ResourceNames(memory="example.com/mem")
    asked = request_from_resources(
        resources_from_request(request_, names),
        annotations_from_request(request_),
        environment_from_request(request_),
        names=names,
        defaults=RequestDefaults(memory=Mib(7), cores=Percent(3), count=0, core_policy=CorePolicy.FORCE),
    )
    assert asked is not None
    expected = request_ if request_.vram or request_.vram_percent else SliceRequest(vram_percent=Percent(100))
    assert (asked.vram, asked.vram_percent) == (expected.vram, expected.vram_percent)
    for field in ("cards", "cores", "priority", "policy", "card_policy", "wishes", "oom_killer", "empty_card", "whole"):
        assert getattr(asked, field) == getattr(request_, field), field
