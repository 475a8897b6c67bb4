"""Profiles: what an admin declares, what a person may choose, and what every wrong choice is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.profiles import ChoiceError, ProfileError, choose, default_profiles, parse_profiles

PROFILES = parse_profiles(
    [
        {"name": "cpu", "title": "CPU only", "gpu": False},
        {"name": "small", "title": "4 GiB · 25 %", "vram": "4 GiB", "cores": 25},
        {"name": "staff", "title": "Staff", "vram": "8 GiB", "groups": ["Staff"]},
        {
            "name": "other",
            "title": "Other",
            "vram": "6 GiB",
            "min_vram": "1 GiB",
            "max_vram": "10 GiB",
            "max_cores": 50,
        },
        {"name": "half", "title": "Half", "vram": "50 %"},
        {"name": "whole", "title": "Whole"},
    ]
)


def test_cpu_is_the_first_default() -> None:
    first = default_profiles()[0]
    assert (first.name, first.request) == ("cpu", None)
    assert choose(default_profiles(), {}).request is None


def test_a_fixed_profile() -> None:
    request = choose(PROFILES, {"profile": "small"}).request
    assert request is not None
    assert (request.vram, request.cores) == (4096, 25)


def test_a_profile_without_an_amount_is_the_whole_card() -> None:
    request = choose(PROFILES, {"profile": "whole"}).request
    assert request is not None
    assert request.whole


def test_a_free_amount() -> None:
    request = choose(PROFILES, {"profile": "other", "vram": "1.5 GiB", "cores": "10 %"}).request
    assert request is not None
    assert (request.vram, request.cores) == (1536, 10)
    preset = choose(PROFILES, {"profile": "other", "vram": "", "cores": ""}).request
    assert preset is not None
    assert preset.vram == 6144


def test_groups_are_compared_without_case() -> None:
    assert choose(PROFILES, {"profile": "staff"}, groups=["STAFF"]).profile.name == "staff"


@pytest.mark.parametrize(
    ("options", "reason", "says"),
    [
        ({"profile": "nope"}, "unknown-profile", "There is no profile"),
        ({"profile": "staff"}, "not-allowed", "not open to you"),
        ({"profile": ["small"]}, "unknown-profile", "There is no profile"),
        ({"profile": {"a": 1}}, "unknown-profile", "There is no profile"),
        ({"profile": "small", "vram": "8 GiB"}, "bad-option", "fixed amount of vram"),
        ({"profile": "other", "vram": "0"}, "bad-amount", "no memory at all"),
        ({"profile": "other", "vram": "-1"}, "bad-amount", "not an amount"),
        ({"profile": "other", "vram": "512 MiB"}, "bad-amount", "1 GiB or more"),
        ({"profile": "other", "vram": "11 GiB"}, "bad-amount", "10 GiB or less"),
        ({"profile": "other", "vram": 10**12}, "bad-amount", "more than any card"),
        ({"profile": "other", "cores": "51"}, "bad-amount", "50 % or less"),
        ({"profile": "other", "vram": "<b>4</b>"}, "bad-amount", "not an amount"),
        ({"profile": "small", "image": "x"}, "bad-option", "not an option"),
        ({"profile": "x" * 5000}, "unknown-profile", "There is no profile"),
    ],
)
def test_a_wrong_choice_is_told_what_would_be_right(options: dict[str, Any], reason: str, says: str) -> None:
    with pytest.raises(ChoiceError) as refused:
        choose(PROFILES, options)
    assert refused.value.reason == reason
    assert says in str(refused.value)
    assert len(str(refused.value)) < 300


def test_nothing_open_is_said_so() -> None:
    only_staff = parse_profiles([{"name": "staff", "groups": ["staff"]}])
    with pytest.raises(ChoiceError, match="No profile is open to you"):
        choose(only_staff, {})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@given(
    st.dictionaries(
        st.sampled_from(["profile", "vram", "cores", "other"]), json_values | st.sampled_from(["other", "4 GiB", "25"])
    )
)
def test_no_json_gets_past_choose(options: dict[str, Any]) -> None:
    try:
        choice = choose(PROFILES, options)
    except ChoiceError:
        return
    request = choice.request
    assert choice.profile.name != "staff"
    if choice.profile.name == "other":
        assert request is not None
        assert 1024 <= (request.vram or 0) <= 10 * 1024
        assert request.cores <= 50


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ([], "is empty"),
        (["small"], "dictionary"),
        ([{"title": "no name"}], "has the name None"),
        ([{"name": "Big One"}], "lower-case"),
        ([{"name": "a"}, {"name": "a"}], "Two profiles"),
        ([{"name": "a", "vramm": "4 GiB"}], "unknown key 'vramm'"),
        ([{"name": "a", "vram": "4 GB"}], "Profile 'a'"),
        ([{"name": "a", "cores": 101}], "Profile 'a'"),
        ([{"name": "a", "policy": "hard"}], "Profile 'a'"),
        ([{"name": "a", "groups": "staff"}], "list of group names"),
        ([{"name": "a", "vram": "1 GiB", "min_vram": "4 GiB", "max_vram": "2 GiB"}], "more than max_vram"),
    ],
)
def test_a_wrong_declaration_names_the_profile_and_the_key(raw: list[Any], says: str) -> None:
    with pytest.raises(ProfileError, match=says):
        parse_profiles(raw)
