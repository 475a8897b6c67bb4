"""Quotas as they are written: read strictly, never raising, and a wrong value says what would be right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.profiles import parse_profiles
from hami_hub.core.quota import KEYS, Quota, UserQuota, has_quota, parse_quota, quota_properties
from hami_hub.core.times import format_time, parse_time
from hami_hub.core.units import Mib

ALL = {
    "hami.vram": "24GiB",
    "hami.cores": "200",
    "hami.servers": "6",
    "hami.vram-per-user": "8 GiB",
    "hami.cores-per-user": "100 %",
    "hami.servers-per-user": "2",
    "hami.profiles": "t4-small, t4-medium",
    "hami.max-lifetime": "8h",
    "hami.idle-timeout": "45m",
    "hami.weight": "2",
    "hami.user.alice.vram": "12GiB",
    "hami.user.al.ice@example.com.servers": "3",
}


def fault(key: str, value: Any) -> str:
    _, faults = parse_quota({key: value})
    [found] = faults
    assert found.key == key
    return found.text


def test_every_key_is_read() -> None:
    quota, faults = parse_quota(ALL)
    assert faults == ()
    assert quota == Quota(
        vram=Mib(24576),
        cores=200,
        servers=6,
        vram_per_user=Mib(8192),
        cores_per_user=100,
        servers_per_user=2,
        profiles=frozenset({"t4-small", "t4-medium"}),
        max_lifetime=8 * 3600,
        idle_timeout=45 * 60,
        weight=2.0,
        users={"alice": UserQuota(vram=Mib(12288)), "al.ice@example.com": UserQuota(servers=3)},
    )
    assert quota.of_user("Alice") == UserQuota(vram=Mib(12288), cores=100, servers=2)
    assert quota.of_user("bob") == UserQuota(vram=Mib(8192), cores=100, servers=2)


def test_each_example_is_right() -> None:
    assert parse_quota(dict(KEYS))[1] == ()


WRONG = {
    "a decimal unit": ("hami.vram", "24 GB", "uses a decimal unit"),
    "no unit": ("hami.vram", "24", "has a unit. Write it like 24GiB."),
    "a number without a unit": ("hami.vram", 24, "has a unit"),
    "negative": ("hami.vram", "-4GiB", "is not an amount of VRAM"),
    "huge": ("hami.vram", "99999999 TiB", "more than"),
    "digits of another script": ("hami.cores", "٢٠٠", "whole percentage"),
    "no percentage": ("hami.cores", "lots", "cores are a whole percentage of a card, 200 for two cards"),
    "half a server": ("hami.servers", "1.5", "servers are a whole number"),
    "a billion servers": ("hami.servers", "1000000000", "servers are a whole number"),
    "true": ("hami.servers", True, "the value of a property is text"),
    "nothing": ("hami.servers", None, "the value of a property is text"),
    "a list": ("hami.servers", [1, 2], "the value of a property is text"),
    "a dictionary": ("hami.vram", {"a": "<b>"}, "the value of a property is text"),
    "no number": ("hami.weight", float("nan"), "the value of a property is text"),
    "more digits than Python prints": ("hami.servers", 10**5000, "the value of a property is text"),
    "empty": ("hami.vram", "  ", "hami.vram is empty. Write it like 24GiB, or remove the property."),
    "a time without a unit": ("hami.max-lifetime", "8", "a time has a unit"),
    "no time": ("hami.idle-timeout", "0m", "a time has a unit"),
    "a century": ("hami.max-lifetime", "36500d", "at most ten years"),
    "no weight": ("hami.weight", "0", "above 0"),
    "negative weight": ("hami.weight", "-1", "above 0"),
    "names without commas": ("hami.profiles", "a b", "commas between them"),
    "no names": ("hami.profiles", ",", "commas between them"),
    "HTML": ("hami.profiles", "<script>alert(1)</script>", '"<script>alert(1)</script>"'),
    "a slip in the key": ("hami.vrm", "24GiB", "Did you mean hami.vram?"),
    "another key": ("hami.gold", "red", "There are: hami.vram, hami.cores"),
    "upper case": ("Hami.Vram", "24GiB", "Did you mean hami.vram?"),
    "blanks around": (" hami.vram", "24GiB", "Did you mean hami.vram?"),
    "only the prefix": ("hami.", "1", "is no key of a quota"),
    "an exception of what": ("hami.user.alice", "8GiB", "Write hami.user.alice.vram, hami.user.alice.cores or"),
    "an exception for nobody": ("hami.user..vram", "8GiB", "is no exception for a person"),
    "an exception without a unit": ("hami.user.alice.vram", "8", "has a unit. Write it like 24GiB."),
    "an exception of another kind": ("hami.user.alice.weight", "8", "is no exception for a person"),
    "a line break": ("hami.servers", "1\n2", '"1 2"'),
    "a long value": ("hami.servers", "9" * 500, "…"),
}


@pytest.mark.parametrize(("key", "value", "says"), WRONG.values(), ids=WRONG)
def test_a_wrong_value_is_a_fault_that_says_what_would_be_right(key: str, value: Any, says: str) -> None:
    text = fault(key, value)
    assert says in text
    assert len(text) < 400
    assert "\n" not in text


def test_one_wrong_value_leaves_the_others_readable() -> None:
    quota, faults = parse_quota({**ALL, "hami.cores": "lots"})
    assert [each.key for each in faults] == ["hami.cores"]
    assert quota.vram == 24576


def test_the_same_person_twice_is_a_fault() -> None:
    _, [found] = parse_quota({"hami.user.Alice.vram": "8GiB", "hami.user.alice.vram": "4GiB"})
    assert "twice" in found.text


def test_nothing_at_all_is_a_limit_too() -> None:
    assert parse_quota({"hami.vram": "0", "hami.servers": 0, "hami.cores": "0 %"})[0] == Quota(
        vram=Mib(0), servers=0, cores=0
    )


def test_properties_of_others_are_nobodys_business_of_ours() -> None:
    theirs = {"colour": "red", "hamster.vram": [1], "hami": {}, "nested": {"hami.vram": "x"}}
    assert parse_quota(theirs) == (Quota(), ())
    assert not has_quota(theirs)
    assert has_quota({**theirs, "hami.colour": ""})
    assert has_quota({"HAMI.vram": "1"})


amounts = st.integers(0, 10**9).map(Mib)
counts = st.integers(0, 10**6)
seconds = st.integers(1, 10 * 365 * 24 * 3600)
names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
users = (
    st.text(st.characters(blacklist_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=20)
    .map(str.casefold)
    .filter(lambda name: name == name.casefold() and name.strip() == name)
)
limits = st.builds(UserQuota, vram=st.none() | amounts, cores=st.none() | counts, servers=st.none() | counts)
quotas = st.builds(
    Quota,
    vram=st.none() | amounts,
    cores=st.none() | counts,
    servers=st.none() | counts,
    vram_per_user=st.none() | amounts,
    cores_per_user=st.none() | counts,
    servers_per_user=st.none() | counts,
    profiles=st.none() | st.frozensets(names, min_size=1, max_size=3),
    max_lifetime=st.none() | seconds,
    idle_timeout=st.none() | seconds,
    weight=st.integers(1, 10**9).map(lambda millionths: millionths / 10**6),
    users=st.dictionaries(users, limits.filter(lambda each: each != UserQuota()), max_size=3),
)


@given(quotas)
def test_what_is_written_is_read_back(quota: Quota) -> None:
    assert parse_quota(quota_properties(quota)) == (quota, ())


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from([*ALL, "hami.", "HAMI.vram", "hami.user.x"]) | st.text(max_size=20).map(lambda t: f"hami.{t}")


@given(st.dictionaries(keys | st.text(max_size=10), json, max_size=6))
def test_whatever_stands_there_is_read_or_a_fault_in_one_line(properties: dict[str, Any]) -> None:
    _, faults = parse_quota(properties)
    for each in faults:
        assert each.text.isprintable()
        assert each.text.endswith((".", "?"))
        assert each.key in properties


@given(seconds)
def test_times_are_read_back(length: int) -> None:
    assert parse_time(format_time(length)) == length


@pytest.mark.parametrize("text", ["", "h", "1", "1w", "-1h", "1h 1h", "1m1h", "0s", "9999999999s"])
def test_what_is_no_time(text: str) -> None:
    assert parse_time(text) is None


def test_a_profile_may_have_a_lifetime() -> None:
    [profile] = parse_profiles([{"name": "small", "vram": "1 GiB", "max_lifetime": "1h30m"}])
    assert profile.max_lifetime == 5400
    with pytest.raises(ValueError, match=r"max_lifetime is 8\. Write it like 8h"):
        parse_profiles([{"name": "small", "max_lifetime": 8}])
