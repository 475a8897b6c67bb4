"""What can't be granted is said in a sentence, leaves nothing reserved, and is no fault of the hub's."""

from __future__ import annotations

import html
from typing import Any

import jupyterhub
import pytest
from hub_process import Failed, Hub
from person import Person
from shapes import IN_ONE_SHAPE, WITH_ACCOUNTS

LONG = "9" * 10_000

BAD = {
    "unknown profile": ({"profile": "nope"}, 'There is no profile "nope". There are: cpu, small, half, whole, other.'),
    "not your group": ({"profile": "research"}, 'The profile "research" is not open to you.'),
    "profile is no text": ({"profile": 7}, 'There is no profile "7".'),
    "html in the profile": ({"profile": "<b>x</b>"}, 'There is no profile "<b>x</b>".'),
    "unknown option": ({"gpu": "1"}, '"gpu" is not an option of a server. Options are profile, vram, cores and group.'),
    "fixed amount": ({"profile": "small", "vram": "8 GiB"}, "4 GiB · 25 % has a fixed amount of vram."),
    "no amount": ({"profile": "other", "vram": "lots"}, '"lots" is not an amount of VRAM. Write it like 4 GiB'),
    "negative": ({"profile": "other", "vram": "-4 GiB"}, '"-4 GiB" is not an amount of VRAM.'),
    "zero": ({"profile": "other", "vram": "0"}, '"0" is no memory at all'),
    "zero as a number": ({"profile": "other", "vram": 0}, '"0" is no memory at all'),
    "a lot": ({"profile": "other", "vram": 10**12}, '"1000000000000" is more than any card has.'),
    "very long": ({"profile": "other", "vram": LONG}, "is not an amount of VRAM."),
    "unicode digits": ({"profile": "other", "vram": "٤٠٩٦"}, '"٤٠٩٦" is not an amount of VRAM.'),
    "html": ({"profile": "other", "vram": "<script>"}, '"<script>" is not an amount of VRAM.'),
    "percent signs": ({"profile": "other", "vram": "50 %d %s"}, '"50 %d %s" is not an amount of VRAM.'),
    "a truth": ({"profile": "other", "vram": True}, '"True" is not an amount of VRAM.'),
    "a list": ({"profile": "other", "vram": [4096]}, '"[4096]" is not an amount of VRAM.'),
    "an object": ({"profile": "other", "vram": {"a": 1}}, "is not an amount of VRAM."),
    "more after it": ({"profile": "other", "vram": "4096; rm -rf"}, '"4096; rm -rf" is not an amount of VRAM.'),
    "too little": (
        {"profile": "other", "vram": "100 MiB"},
        "100 MiB is less than this profile allows. Ask for 256 MiB or more.",
    ),
    "more than the card": (
        {"profile": "other", "vram": "20 GiB"},
        "20 GiB can never fit here: the Tesla T4 has 15 GiB in all, 20 GiB are asked for.",
    ),
    "too many cores": ({"profile": "other", "cores": "101"}, '"101" is not a percentage of cores.'),
    "more cores than allowed": (
        {"profile": "other", "cores": "90"},
        "90 % is more than this profile allows. Ask for 80 % or less.",
    ),
    "unicode cores": ({"profile": "other", "cores": "٢٥"}, '"٢٥" is not a percentage of cores.'),
}


@IN_ONE_SHAPE
@pytest.mark.parametrize(("options", "text"), BAD.values(), ids=BAD)
def test_a_bad_choice_gets_a_sentence(hub: Hub, options: dict[str, Any], text: str) -> None:
    with pytest.raises(Failed) as refused:
        hub.start("bob", options)
    assert text in str(refused.value)
    assert hub.held() == {}


@IN_ONE_SHAPE
def test_a_member_of_the_group_may(hub: Hub) -> None:
    hub.start("rita", {"profile": "research"})
    assert hub.held()["rita"].shares[0].vram == 1024


@IN_ONE_SHAPE
def test_saved_options_that_are_good_no_more_are_refused_readably(hub: Hub) -> None:
    with pytest.raises(Failed):
        hub.start("bob", {"profile": "gone"})
    with pytest.raises(Failed, match=r'There is no profile "gone"\. There are: cpu'):
        hub.start("bob", None)


SERVERS_THAT_FAIL = {
    "ends at once": ("dies", r"Your server ended while it was starting \(exit status 3\)\. Start it again"),
    "never answers": ("mute", r"Your server started but did not answer within 2 seconds\. Start it again"),
    "no program": ("noprogram", r"the program /no/such/program was not found"),
    "no home": ("homeless", r"Your home folder \S+ can't be written, so your server can't start"),
}


@pytest.mark.parametrize(("user", "text"), SERVERS_THAT_FAIL.values(), ids=SERVERS_THAT_FAIL)
def test_a_server_that_does_not_start_gives_its_slice_back_and_says_why(
    hub: Hub, shape: str, user: str, text: str
) -> None:
    if (shape, user) == ("docker", "homeless"):  # what is in a container only its own words tell
        text = r"ended while it was starting \(exit status 1\)"
    with pytest.raises(Failed, match=text):
        hub.start(user, {"profile": "whole"})
    hub.until_held()
    hub.start("alice", {"profile": "whole"})


@WITH_ACCOUNTS
def test_who_has_no_account_is_told_so(hub: Hub) -> None:
    with pytest.raises(Failed, match=r"There is no account nobodyknows on this machine\. Ask an admin to make one\."):
        hub.start("nobodyknows", {"profile": "small"})
    assert hub.held() == {}


def test_refusals_never_end_the_hub(hub: Hub) -> None:
    begun = len(hub.log.read_text())
    hub.start("alice", {"profile": "whole"})
    for options in [{"profile": "nope"}] * 4 + [{"profile": "other", "vram": "20 GiB"}] * 3:
        with pytest.raises(Failed):
            hub.start("bob", options)
    for _ in range(4):
        with pytest.raises(Failed):
            hub.start("dies", {"profile": "cpu"})
    if jupyterhub.version_info[0] >= 6:
        assert 'reason="hami-unknown-profile",status="failure"' in hub.metrics()
    assert "consecutive" not in hub.log.read_text()[begun:]  # the limit is 3, and it warns of coming near
    assert hub.alive
    hub.start("carol", {"profile": "cpu"})


# --- as a person sees it, in a browser ------------------------------------------------------------------------------


@IN_ONE_SHAPE
def test_the_form_shows_the_card_and_the_profiles(hub: Hub) -> None:
    page = Person(hub, "bob").open("/hub/spawn")
    assert "Tesla T4, 15 GiB, all free" in page
    for title in ("CPU only", "4 GiB · 25 %", "Whole card", "Another amount"):
        assert title in page
    assert "Only for members of research." in page


def test_a_refused_form_is_shown_again_with_the_sentence(patient_hub: Hub) -> None:
    person = Person(patient_hub, "bob")
    person.open("/hub/spawn")
    page = person.send(
        "/hub/spawn",
        {"profile": "other", "profile-option-other--vram": "<b>4</b>", "profile-option-other--cores": "25"},
    )
    assert '"<b>4</b>" is not an amount of VRAM. Write it like 4 GiB or 4096 MiB.' in html.unescape(page)
    assert "<b>4</b>" not in page


@IN_ONE_SHAPE
def test_the_form_starts_what_was_picked(hub: Hub) -> None:
    person = Person(hub, "bob")
    person.open("/hub/spawn")
    person.send("/hub/spawn", {"profile": "other", "profile-option-other--vram": "3 GiB"})
    hub.until_started("bob")
    assert hub.held()["bob"].shares[0].vram == 3072


@IN_ONE_SHAPE
def test_a_link_can_start_an_amount(hub: Hub) -> None:
    Person(hub, "bob").open("/hub/spawn?opt-profile=other&opt-vram=3GiB")
    hub.until_started("bob")
    assert hub.held()["bob"].shares[0].vram == 3072


@IN_ONE_SHAPE
def test_the_progress_page_gets_the_words_as_text_and_as_html(hub: Hub) -> None:
    hub.ask("mute", {"profile": "small"})
    *_, last = hub.until_over("mute")
    assert last["failed"]
    assert last["message"].startswith("Spawn failed: Your server started but did not answer")
    assert last["html_message"] == html.escape(last["message"].removeprefix("Spawn failed: "))
