"""Quotas on a real hub: never exceeded, whoever presses Start when, and given back whatever way a server takes."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jupyterhub
import pytest
from hub_process import Failed
from left import left_empty, left_without_traceback
from person import Person
from quota_hub import QuotaHub
from shapes import SHAPES

from hami_hub.core.history import Start

SMALL = {"profile": "other", "vram": "512 MiB"}


@pytest.fixture(scope="module")
def shared() -> Iterator[QuotaHub]:
    everybody = {"concurrent_spawn_limit": 0}
    with QuotaHub(spawner=SHAPES["simple"], JupyterHub=everybody) as hub:
        hub.start("alice", SMALL)  # the first asks the driver for the cards
        hub.stop("alice")
        yield hub


@pytest.fixture
def hub(shared: QuotaHub) -> Iterator[QuotaHub]:
    """A hub without servers and groups; a test may leave nothing charged."""
    with left_without_traceback(shared):
        with left_empty(shared):
            yield shared
        shared.delete_groups()
        shared.group("check", "checker", servers="1", vram="8GiB")
        shared.start("checker", {"profile": "half"})
        shared.stop("checker")
        shared.delete_groups()


# --- all at once ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("quota", [{"servers": "7"}, {"vram": "3584MiB"}], ids=["servers", "VRAM"])
def test_two_hundred_who_press_start_at_once_get_the_quota_and_not_one_more(
    hub: QuotaHub, quota: dict[str, str]
) -> None:
    people = [f"p{number}" for number in range(200)]
    hub.group("class", *people, **quota)
    hub.api.get("/groups/class").raise_for_status()

    def press(user: str) -> str:
        try:
            hub.ask(user, SMALL)
            hub.until_started(user)
        except Failed as failed:
            return str(failed)
        return ""

    with ThreadPoolExecutor(50) as pool:
        said = list(pool.map(press, people))
    refusals = [text for text in said if text]
    assert len(refusals) == 193
    assert len(hub.held()) == 7
    rule = "servers" if "servers" in quota else "vram"
    assert all(f"(hami.{rule})" in text and "others" in text for text in refusals), refusals[:3]


def test_several_servers_of_one_person_pressed_at_once_stay_within_their_own_limit(hub: QuotaHub) -> None:
    hub.group("ml", "alice", vram_per_user="2GiB")
    names = [f"server{number}" for number in range(12)]

    def press(name: str) -> str:
        try:
            hub.start("alice", SMALL, name)
        except Failed as failed:
            return str(failed)
        return ""

    with ThreadPoolExecutor(12) as pool:
        said = list(pool.map(press, names))
    assert said.count("") == 4
    assert all("(hami.vram-per-user)" in text for text in said if text)


# --- an admin's edit ------------------------------------------------------------------------------------------------


def test_an_edit_counts_at_once_and_a_lowered_quota_ends_nothing(hub: QuotaHub) -> None:
    hub.group("ml", "alice", "bob", vram="8GiB")
    hub.start("alice", {"profile": "half"})
    assert hub.refused("bob", {"profile": "small"}) == (
        "Your start needs 4 GiB of VRAM, and 0 MiB is left of what the group ml has: 8 GiB of VRAM (hami.vram). "
        "In use: 8 GiB by 1 other. Try again when a server has stopped, or pick a profile without a GPU."
    )
    hub.properties("ml", {"hami.vram": "12GiB"})
    hub.start("bob", {"profile": "small"})
    hub.properties("ml", {"hami.vram": "1GiB"})
    assert hub.servers("alice")[""]["ready"]
    assert hub.servers("bob")[""]["ready"]
    assert "1 GiB of VRAM (hami.vram)" in hub.refused("bob", SMALL, "second")
    hub.stop("alice")
    hub.stop("bob")
    hub.start("bob", SMALL)


def test_what_could_never_be_paid_is_said_so_at_once(hub: QuotaHub) -> None:
    hub.group("ml", "alice", vram="3GiB")
    assert hub.refused("alice", {"profile": "half"}) == (
        "Your start needs 8 GiB of VRAM, more than the group ml ever has: 3 GiB of VRAM (hami.vram). "
        "Pick 3 GiB or less, or ask an admin for more."
    )
    # A whole card is charged as what it is.
    assert "Your start needs 15 GiB of VRAM" in hub.refused("alice", {"profile": "whole"})


WRONG: dict[str, tuple[Any, str]] = {
    "a decimal unit": ("24 GB", "uses a decimal unit"),
    "negative": ("-1GiB", "is not an amount of VRAM"),
    "huge": ("9" * 300 + "GiB", "is not an amount of VRAM"),
    "HTML": ("<img src=x onerror=alert(1)>", "is not an amount of VRAM"),
    "a number": (24, "an amount of VRAM has a unit"),
    "a list": (["24GiB"], "the value of a property is text"),
    "a dictionary": ({"limit": "24GiB"}, "the value of a property is text"),
    "nothing": (None, "the value of a property is text"),
}


@pytest.mark.parametrize(("value", "says"), WRONG.values(), ids=WRONG)
def test_a_wrong_value_never_opens_the_gate(hub: QuotaHub, value: Any, says: str) -> None:
    hub.group("ml", "alice", servers="5")
    hub.properties("ml", {"hami.servers": "5", "hami.vram": value, "theirs": "x"})
    text = hub.refused("alice", SMALL)
    assert text.startswith("The quota of the group ml is written wrongly, so it pays for nothing now. hami.vram")
    assert says in text
    hub.start("alice", {"profile": "cpu"})


def test_what_a_person_wrote_is_text_wherever_it_is_shown(hub: QuotaHub) -> None:
    hub.group("<b>ml</b>", "alice", vram="<i>8</i>")
    person = Person(hub, "alice")
    for page in (person.open("/hub/spawn"), person.send("/hub/spawn", {"profile": "small", "group": "<u>x</u>"})):
        assert "<b>ml" not in page
        assert "<i>8" not in page
        assert "<u>x" not in page
    assert "<u>x</u> doesn't pay for your servers" in hub.refused("alice", {**SMALL, "group": "<u>x</u>"})


# --- groups ---------------------------------------------------------------------------------------------------------


def test_of_several_groups_the_one_that_is_named_pays_else_the_one_with_most_room(hub: QuotaHub) -> None:
    for number in range(50):
        hub.group(f"g{number}", "alice", vram=f"{1 + number}GiB")
    hub.start("alice", {"profile": "half"})
    assert hub.servers("alice")[""]["state"]["hami"]["group"] == "g49"
    hub.start("alice", {"profile": "other", "vram": "1 GiB", "group": "G0"}, "second")
    assert hub.servers("alice")["second"]["state"]["hami"]["group"] == "g0"
    text = hub.refused("alice", {"profile": "other", "vram": "1 GiB", "group": "g0"}, "third")
    assert "In use: 1 GiB by your server second." in text
    assert "It could be paid by: g48" in text
    assert "Yours that may pay: g0, g1" in hub.refused("alice", {**SMALL, "group": "research"}, "third")


def test_a_group_without_a_quota_pays_for_nothing_and_stands_in_nobodys_way(hub: QuotaHub) -> None:
    hub.group("plain", "alice")
    hub.properties("plain", {"colour": "red"})
    hub.start("alice", SMALL)
    assert hub.servers("alice")[""]["state"]["hami"]["group"] == ""
    assert "no other group does" in hub.refused("alice", {**SMALL, "group": "plain"}, "second")


def test_a_group_may_be_deleted_and_made_anew_under_another_case(hub: QuotaHub) -> None:
    hub.group("ML", "alice", "bob", vram="8GiB")
    hub.start("alice", {"profile": "half"})
    hub.delete_group("ML")
    hub.start("bob", SMALL)  # no group, no limit
    hub.group("ml", "alice", "bob", vram="8GiB")
    assert "8 GiB by 1 other" in hub.refused("bob", SMALL, "second")
    hub.stop("alice")
    hub.start("bob", SMALL, "second")


def test_an_empty_group_charges_nobody(hub: QuotaHub) -> None:
    hub.group("empty", vram="0")
    hub.start("alice", SMALL)


def test_a_profile_that_a_group_does_not_pay_for(hub: QuotaHub) -> None:
    hub.group("ml", "alice", profiles="other, small")
    assert hub.refused("alice", {"profile": "half"}) == (
        "The profile half is not paid by the group ml (hami.profiles), which pays for: other, small."
    )
    hub.start("alice", SMALL)


# --- given back -----------------------------------------------------------------------------------------------------


def test_whatever_way_a_server_takes_it_is_charged_once_and_no_longer_than_it_lasts(hub: QuotaHub) -> None:
    begun = time.time()
    people = ["dies", "slow", "mute", "noprogram", "homeless", "alice", "bob"]
    hub.group("ml", *people, servers="1")
    for user in ("dies", "noprogram", "mute", "homeless"):
        with pytest.raises(Failed):
            hub.start(user, SMALL)
    hub.ask("slow", SMALL)
    hub.until_held("slow")
    assert "1 GPU server (hami.servers)" in hub.refused("alice", SMALL)
    hub.stop("slow")
    hub.until_held()
    hub.start("alice", SMALL)
    hub.kill_server("alice")
    hub.until_held()
    hub.until_stopped("alice")
    hub.start("bob", SMALL)
    assert "In use: 1 server of others" in hub.refused("alice", SMALL)
    hub.start("alice", {"profile": "cpu"})
    hub.stop("bob")
    became = {
        ("dies", "failed", "hami-server-ended"),
        ("mute", "failed", "hami-server-silent"),
        ("noprogram", "failed", "hami-command"),
        ("homeless", "failed", "hami-home"),
        ("slow", "cancelled", ""),
        ("alice", "refused", "hami-over-quota"),
        ("alice", "ended", ""),
        ("bob", "ended", ""),
    }
    hub.journal(lambda starts: became <= {(each.user, each.state.value, each.reason) for each in starts}, since=begun)


def test_who_waits_in_line_is_charged_since_it_is_a_promise(hub: QuotaHub) -> None:
    hub.group("ml", "alice", "bob", "carol", vram="30GiB")
    hub.start("alice", {"profile": "whole"})
    hub.ask("bob", {"profile": "whole"})
    hub.until_waiting("bob")
    assert "0 MiB is left" in hub.refused("carol", SMALL)
    hub.stop("bob")
    hub.ask("carol", SMALL)
    assert "in line" in hub.until_waiting("carol")
    hub.stop("carol")


# --- over a restart of the hub --------------------------------------------------------------------------------------


def test_what_runs_is_charged_by_the_next_hub_as_well_and_what_was_starting_is_not(hub: QuotaHub) -> None:
    hub.group("ml", "alice", "slow", "bob", "carol", vram="12GiB", max_lifetime="8h")
    hub.start("alice", {"profile": "half"})
    hub.start("carol", {"profile": "cpu"})
    before = hub.servers("alice")[""]["state"]["hami"]
    hub.ask("slow", {"profile": "small"})
    hub.until_held("alice", "carol", "slow")
    hub.until_noted("slow")
    hub.kill()
    hub.begin()
    assert hub.servers("alice")[""]["state"]["hami"] == before
    text = hub.refused("bob", {"profile": "half"})
    assert "4 GiB is left of what the group ml has" in text
    assert re.search(r"The first of them ends within 8 hours\.", text)
    hub.start("bob", {"profile": "small"})
    hub.stop("alice")
    hub.start("alice", {"profile": "half"})

    def settled(found: list[Start]) -> bool:
        states = {user: [start.state.value for start in found if start.user == user] for user in ("alice", "slow")}
        # What the killed hub had no time to write down is not there at all.
        return states["alice"][-2:] == ["ended", "running"] and set(states["slow"]) <= {"failed", "cancelled"}

    starts = hub.journal(settled)
    assert len({start.id for start in starts}) == len(starts)


# --- how it is told -------------------------------------------------------------------------------------------------


def test_a_refusal_is_no_error_of_the_hubs_and_has_its_label(hub: QuotaHub) -> None:
    hub.group("ml", "alice", servers="0")
    for _ in range(4):  # the hub gives up after 3 that count
        assert "hami.servers is 0" in hub.refused("alice", SMALL)
    assert hub.alive
    if jupyterhub.version_info[0] >= 6:
        assert 'reason="hami-over-quota"' in hub.metrics()


def test_a_person_reads_it_in_their_own_language_and_the_log_in_english(patient_hub: QuotaHub) -> None:
    hub, begun, said = patient_hub, time.time(), {}
    hub.group("ml", "alice", "bob", servers="0")
    try:
        for language in ("ja", "en"):
            said[language] = Person(hub, "alice", language).send("/hub/spawn", {"profile": "small"})
    finally:
        hub.delete_group("ml")
    assert "No GPU server at all is paid by the group ml" in said["en"]
    assert "No GPU server at all" not in said["ja"]
    assert "hami.servers" in said["ja"]
    assert "No GPU server at all is paid by the group ml" in hub.log.read_text()
    refused = hub.journal(lambda starts: len(starts) == 2, since=begun)
    assert all(start.words.startswith("No GPU server at all is paid") for start in refused)
