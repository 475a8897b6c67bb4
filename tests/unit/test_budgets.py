"""Who pays, why nobody does, and in which words it is said."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.budgets import (
    Asked,
    Budget,
    Cause,
    Measure,
    Refused,
    affordable_vram,
    asked_of,
    judge,
    payer,
    payers,
    room,
)
from hami_hub.core.cards import Card, CardState, CardUuid
from hami_hub.core.offers import Availability, Offer, offers, offers_within
from hami_hub.core.profiles import ChoiceError, choose, parse_profiles
from hami_hub.core.quota import Amount, Charge, parse_quota
from hami_hub.core.quota_words import why_refused
from hami_hub.core.slices import CardWishes, SliceId, SliceRequest
from hami_hub.core.units import Mib, Percent

T4 = Card(uuid=CardUuid("GPU-t4"), index=0, model="Tesla T4", vram=Mib(15360))
A10 = Card(uuid=CardUuid("GPU-a10"), index=1, model="NVIDIA A10", vram=Mib(23028))
GIB = 1024


def charge(holder: str, gib: int, cores: int = 0, until: float | None = None) -> Charge:
    return Charge(
        holder=SliceId(holder), user=holder.partition("/")[0], group="ml", profile="small", cards=1,
        vram=Mib(gib * GIB), cores=cores, since=0, until=until,
    )  # fmt: skip


def budget(*charges: Charge, group: str = "ml", **keys: Any) -> Budget:
    quota, faults = parse_quota({f"hami.{key.replace('_', '-')}": value for key, value in keys.items()})
    return Budget(group, quota, charges, faults)


def asks(gib: int, cores: int = 0, user: str = "alice", profile: str = "small", cards: int = 1) -> Asked:
    return Asked(user, profile, cards, Mib(gib * GIB), cores)


def refused(found: Any) -> Refused:
    assert isinstance(found, Refused)
    return found


def said(found: Any, now: float = 0, **how: Any) -> str:
    return why_refused(refused(found), now=now, **how)


# --- what a request is charged --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "vram", "cores"),
    [
        (SliceRequest(vram=Mib(4096), cores=Percent(25)), 4096, 25),
        (SliceRequest(cards=2, vram=Mib(4096), cores=Percent(25)), 8192, 50),
        (SliceRequest(), 23028, 100),
        (SliceRequest(wishes=CardWishes(models=("T4",))), 15360, 100),
        (SliceRequest(vram_percent=Percent(50)), 11514, 0),
        (SliceRequest(cards=2, vram_percent=Percent(50), cores=Percent(10)), 23028, 20),
        (SliceRequest(wishes=CardWishes(models=("H200",))), None, 100),
    ],
    ids=["amount", "two cards", "whole card", "whole T4", "half", "two halves", "no such card"],
)
def test_by_the_card_the_biggest_that_will_do_is_charged(request_: SliceRequest, vram: int | None, cores: int) -> None:
    assert asked_of("alice", "p", request_, (T4, A10)) == Asked("alice", "p", request_.cards, vram, cores)  # type: ignore[arg-type]


def test_a_server_without_a_gpu_is_charged_to_nobody() -> None:
    asked = asked_of("alice", "cpu", None, (T4,))
    assert asked.amount == Amount()
    assert judge(budget(servers="0", vram="0"), asked) is None
    assert judge(budget(vram="nonsense"), asked) is None


# --- one group ------------------------------------------------------------------------------------------------------

HELD = (charge("alice/", 4, 25), charge("alice/train", 4, 25), charge("bob/", 8, 50))

CASES: dict[str, tuple[dict[str, str], Asked, str | None, bool]] = {
    "no limit": ({"weight": "1"}, asks(99), None, False),
    "fits exactly": ({"vram": "24GiB"}, asks(8), None, False),
    "a MiB too much": ({"vram": "24575MiB"}, asks(8), "hami.vram", False),
    "never": ({"vram": "24GiB"}, asks(25), "hami.vram", True),
    "cores": ({"cores": "120"}, asks(1, 25), "hami.cores", False),
    "cores never": ({"cores": "20"}, asks(1, 25), "hami.cores", True),
    "servers": ({"servers": "3"}, asks(1), "hami.servers", False),
    "no servers at all": ({"servers": "0"}, asks(1), "hami.servers", True),
    "already over, after lowering": ({"vram": "4GiB"}, asks(1), "hami.vram", False),
    "mine": ({"vram-per-user": "9GiB"}, asks(2), "hami.vram-per-user", False),
    "another's is not mine": ({"vram-per-user": "9GiB"}, asks(1, user="bob"), None, False),
    "my cores": ({"cores-per-user": "60"}, asks(1, 25), "hami.cores-per-user", False),
    "my servers": ({"servers-per-user": "2"}, asks(1), "hami.servers-per-user", False),
    "an exception gives more": ({"servers-per-user": "2", "user.alice.servers": "3"}, asks(1), None, False),
    "an exception gives less": (
        {"vram-per-user": "99GiB", "user.alice.vram": "9GiB"}, asks(2), "hami.user.alice.vram", False,
    ),
    "an exception doesn't lift the group's": (
        {"vram": "16GiB", "user.alice.vram": "64GiB"}, asks(1), "hami.vram", False,
    ),
    "profile": ({"profiles": "small, other"}, asks(1, profile="big"), "hami.profiles", True),
    "a profile of its own": ({"profiles": "small"}, asks(1), None, False),
    "never is said before not now": ({"servers": "3", "vram": "4GiB"}, asks(5), "hami.vram", True),
    "a fault": ({"vram": "24GiB", "cores": "lots"}, asks(1), "hami.cores", True),
}  # fmt: skip


@pytest.mark.parametrize(("keys", "asked", "key", "never"), CASES.values(), ids=CASES)
def test_what_a_group_pays_for(keys: dict[str, str], asked: Asked, key: str | None, never: bool) -> None:
    found = judge(budget(*HELD, **keys), asked)
    assert (found and found.key) == key
    if found is not None:
        assert found.never is never


def test_what_is_asked_for_by_a_card_that_nobody_knows_is_not_paid_where_vram_is_limited() -> None:
    unknown = Asked("alice", "whole", 1, None, 100)
    assert refused(judge(budget(vram="24GiB"), unknown)).cause is Cause.SIZE_UNKNOWN
    assert refused(judge(budget(vram_per_user="24GiB"), unknown)).cause is Cause.SIZE_UNKNOWN
    assert judge(budget(servers="3"), unknown) is None


amounts = st.none() | st.integers(0, 40)


@st.composite
def budgets(draw: st.DrawFn, group: str = "ml") -> Budget:
    keys = {
        key: f"{value}GiB" if "vram" in key else str(value)
        for key in ("vram", "cores", "servers", "vram-per-user", "servers-per-user")
        if (value := draw(amounts)) is not None
    }
    people = st.sampled_from(["alice", "bob", "carol"])
    held = [
        charge(f"{draw(people)}/{number}", draw(st.integers(1, 20)), draw(st.integers(0, 100)))
        for number in range(draw(st.integers(0, 5)))
    ]
    return budget(*held, group=group, **keys)


@given(budgets(), st.integers(1, 30), st.integers(0, 100))
def test_what_is_paid_is_within_every_limit_and_what_is_not_is_over_one(found: Budget, gib: int, cores: int) -> None:
    asked = asks(gib, cores)
    over = []
    for limits, used in ((found.quota, found.used), (found.quota.of_user("alice"), found.of_user("alice"))):
        after = used + asked.amount
        over += [m for m in Measure if (limit := getattr(limits, m.value)) is not None and m.of(after) > limit]
    verdict = judge(found, asked)
    assert (verdict is None) == (not over)
    if verdict is not None:
        assert verdict.measure in over
        # of what is over already nothing is left, and who asks for none of it is refused as well
        assert verdict.left < verdict.measure.of(asked.amount) or verdict.left == 0


@given(budgets(), st.integers(1, 30), st.integers(0, 100))
def test_what_is_said_to_fit_is_paid_and_a_mib_more_is_not(found: Budget, gib: int, cores: int) -> None:
    fits = affordable_vram(found, asks(gib, cores))
    if fits is None:
        assert judge(found, asks(10**6, cores)) is None
        return
    if fits:
        assert judge(found, Asked("alice", "small", 1, fits, cores)) is None
    assert judge(found, Asked("alice", "small", 1, Mib(fits + 1), cores)) is not None
    verdict = judge(found, asks(gib, cores))
    assert verdict is None or verdict.fits == fits


# --- several groups -------------------------------------------------------------------------------------------------


def test_the_group_with_most_room_pays_unless_one_is_named() -> None:
    ml = budget(charge("bob/", 8), vram="24GiB")
    art = budget(group="Art", vram="40GiB")
    tiny = budget(group="tiny", vram="1GiB")
    assert [each.group for each in payers((ml, art, tiny), asks(8))] == ["Art", "ml"]
    assert payer((ml, art), asks(8)) is art
    assert payer((ml, art), asks(8), "ml") is ml
    assert payer((ml, art), asks(8), "ART") is art
    other = refused(payer((ml, art, tiny), asks(20), "ml"))
    assert (other.group, other.others) == ("ml", ("Art",))
    assert "It could be paid by: Art." in said(other)
    stranger = refused(payer((ml, art), asks(8), "physics"))
    assert stranger.cause is Cause.NOT_YOURS
    assert said(stranger) == "The group physics doesn't pay for your servers. Yours that may pay: ml, Art."
    odd = said(payer((ml, art), asks(8), "phy\n\x1b[31msics"))
    assert odd.startswith("The group phy \ufffd[31msics doesn't pay for your servers.")


def test_names_that_differ_in_case_only_are_told_apart_if_they_are_written_exactly() -> None:
    upper, lower = budget(group="ML", vram="8GiB"), budget(group="ml", vram="8GiB")
    assert payer((upper, lower), asks(1), "ml") is lower
    assert payer((upper, lower), asks(1), "Ml") is upper


def test_of_many_refusals_the_nearest_to_a_yes_is_told() -> None:
    fifty = [budget(charge("bob/", 8), group=f"g{number}", vram=f"{number}GiB") for number in range(50)]
    assert isinstance(payer(fifty, asks(8)), Budget)
    found = refused(payer(fifty, asks(44)))
    assert (found.group, found.never) == ("g49", False)
    broken = budget(group="broken", vram="x")
    assert refused(payer((broken, budget(charge("bob/", 8), vram="8GiB")), asks(1))).cause is Cause.LIMIT


def test_room_is_how_many_more_would_be_paid() -> None:
    assert room(budget(charge("bob/", 8), vram="24GiB", cores="100"), asks(4, 10)) == 4
    assert room(budget(weight="1"), asks(4)) == math.inf


# --- words ----------------------------------------------------------------------------------------------------------


def test_a_refusal_says_what_who_when_and_what_to_do() -> None:
    held = (
        charge("alice/", 4), charge("alice/train", 4, until=9000), charge("bob/", 8, until=7200), charge("carol/x", 6),
    )  # fmt: skip
    found = judge(budget(*held, vram="24GiB"), asks(4))
    assert said(found) == (
        "Your start needs 4 GiB of VRAM, and 2 GiB is left of what the group ml has: 24 GiB of VRAM (hami.vram). "
        "In use: 4 GiB by your server; 4 GiB by your server train; 14 GiB by 2 others. "
        "The first of them ends within 2 hours. Pick 2 GiB or less, or stop one of your servers."
    )
    assert "8 GiB by bob; 6 GiB by carol/x." in said(found, show_holders=True)


SENTENCES = {
    "never": (
        {"vram": "24GiB"}, asks(40),
        "Your start needs 40 GiB of VRAM, more than the group ml ever has: 24 GiB of VRAM (hami.vram). "
        "Pick 24 GiB or less, or ask an admin for more.",
    ),
    "never mine": (
        {"cores-per-user": "20"}, asks(1, 50),
        "Your start needs 50 % of a card's time, more than the group ml ever gives you: 20 % of a card's time "
        "(hami.cores-per-user). Pick another profile, or ask an admin for more.",
    ),
    "no servers": (
        {"servers": "0"}, asks(1),
        "No GPU server at all is paid by the group ml (hami.servers is 0). "
        "Pick another profile, or ask an admin for more.",
    ),
    "servers": (
        {"servers": "3"}, asks(1),
        "As many servers start or run as the group ml pays for: 3 GPU servers (hami.servers). "
        "In use: 1 by your server; 1 by your server train; 1 by 1 other. "
        "Stop one of your servers, or pick a profile without a GPU.",
    ),
    "my servers": (
        {"servers-per-user": "1"}, asks(1, user="bob"),
        "You have as many servers as the group ml gives you: 1 GPU server (hami.servers-per-user). "
        "In use: 1 by your server. Stop one of your servers, or pick a profile without a GPU.",
    ),
    "my cores": (
        {"cores-per-user": "60"}, asks(1, 25),
        "Your start needs 25 % of a card's time, and 10 % is left of what the group ml gives you: 60 % of a card's "
        "time (hami.cores-per-user). In use: 25 % by your server; 25 % by your server train. "
        "Stop one of your servers, or pick a profile without a GPU.",
    ),
    "others only": (
        {"vram": "16GiB"}, asks(1, user="dora"),
        "Your start needs 1 GiB of VRAM, and 0 MiB is left of what the group ml has: 16 GiB of VRAM (hami.vram). "
        "In use: 16 GiB by 3 others. Try again when a server has stopped, or pick a profile without a GPU.",
    ),
    "profile": (
        {"profiles": "small, other"}, asks(1, profile="big"),
        "The profile big is not paid by the group ml (hami.profiles), which pays for: other, small.",
    ),
    "fault": (
        {"cores": "<b>"}, asks(1),
        "The quota of the group ml is written wrongly, so it pays for nothing now. "
        'hami.cores is "<b>", but cores are a '
        "whole percentage of a card, 200 for two cards. Write it like 200. Ask an admin to correct it.",
    ),
    "unknown size": (
        {"vram": "24GiB"}, Asked("alice", "whole", 1, None, 100),
        "How much VRAM a whole card has is not known now, so the group ml can't be charged for it. "
        "Pick a profile with an amount in GiB, or try again later.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("keys", "asked", "text"), SENTENCES.values(), ids=SENTENCES)
def test_each_refusal_in_words(keys: dict[str, str], asked: Asked, text: str) -> None:
    assert said(judge(budget(*HELD, **keys), asked)) == text


def test_the_default_quota_is_called_so() -> None:
    nobodys = budget(*HELD, group="", vram="16GiB")
    assert "is left of what the default quota has: 16 GiB" in said(judge(nobodys, asks(1)))
    found = payer((nobodys,), asks(1), "physics")
    assert said(found) == (
        "The group physics doesn't pay for your servers, and no other group does. Leave the group out."
    )
    assert said(judge(budget(group="", vram="x"), asks(1))).startswith("The hub's default quota is written wrongly")


def test_many_holders_are_a_list_no_longer() -> None:
    many = [charge(f"user{number}/", 1) for number in range(40)]
    text = said(judge(budget(*many, vram="40GiB"), asks(1, user="dora")), show_holders=True)
    assert text.count(" by ") == 6
    assert "35 GiB by 35 others" in text


# --- what is offered ------------------------------------------------------------------------------------------------

PROFILES = parse_profiles(
    [
        {"name": "cpu", "gpu": False},
        {"name": "small", "vram": "4 GiB", "cores": 25},
        {"name": "whole"},
        {"name": "other", "vram": "6 GiB", "min_vram": "1 GiB"},
        {"name": "huge", "vram": "64 GiB"},
        {"name": "staff", "vram": "1 GiB", "groups": ["staff"]},
    ]
)


def offered(*found: Budget, cards: tuple[Card, ...] = (T4,)) -> dict[str, Offer]:
    states = [CardState(card=card) for card in cards]
    within = offers_within(offers(PROFILES, states), found, "alice", cards, lambda why: why_refused(why, now=0))
    return {str(offer.profile.name): offer for offer in within}


def test_what_nobody_pays_for_is_over_quota_with_the_reason() -> None:
    found = offered(budget(charge("bob/", 22), vram="24GiB"))
    assert {name: offer.availability.value for name, offer in found.items()} == {
        "cpu": "now", "small": "over-quota", "whole": "over-quota", "other": "now", "huge": "never", "staff": "closed",
    }  # fmt: skip
    assert not found["small"].selectable
    assert found["small"].text.startswith("Your start needs 4 GiB of VRAM, and 2 GiB is left")
    assert found["small"].charged == Amount(Mib(4096), 25, 1)
    assert found["other"].affordable == 2048
    assert found["whole"].charged == Amount(Mib(15360), 100, 1)


def test_one_group_that_pays_is_enough() -> None:
    full, rich = budget(charge("bob/", 24), vram="24GiB"), budget(group="art", vram="100GiB")
    assert offered(full, rich)["small"].availability is Availability.NOW
    assert offered(full, rich)["other"].affordable == 100 * GIB
    assert offered(full, budget(group="free", weight="1"))["other"].affordable is None


def test_a_free_amount_whose_least_is_too_much_is_over_quota() -> None:
    found = offered(budget(charge("bob/", 24), vram="24GiB"))["other"]
    assert (found.availability, found.affordable) == (Availability.OVER_QUOTA, 0)
    assert found.text.startswith("Your start needs 6 GiB of VRAM")


@pytest.mark.parametrize("group", [1, ["ml"], {"a": 1}, True])
def test_a_group_that_is_no_name_is_refused(group: Any) -> None:
    with pytest.raises(ChoiceError, match="is no name of a group"):
        choose(PROFILES, {"profile": "small", "group": group})


@pytest.mark.parametrize(("group", "found"), [(None, ""), ("", ""), (" ml ", "ml"), ("ML", "ML")])
def test_the_group_that_is_to_pay_is_taken_as_it_is_written(group: str | None, found: str) -> None:
    assert choose(PROFILES, {"profile": "small", "group": group}).group == found
