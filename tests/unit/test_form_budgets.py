"""The budgets on the spawn form: what is used and left, who pays, and what the page's script is told."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.budgets import Budget
from hami_hub.core.cards import Card, CardState, CardUuid
from hami_hub.core.offers import offers, offers_within
from hami_hub.core.profiles import parse_profiles
from hami_hub.core.quota import Charge, parse_quota
from hami_hub.core.slices import SliceId
from hami_hub.core.units import Mib
from hami_hub.spawner.form import Bill, BudgetLine, FormContext, Use, bills, budget_lines, render_form
from hami_hub.spawner.form.budgetviews import budgets_view
from hami_hub.spawner.form.view import form_view
from tests.unit.test_form import Page

PROFILES = parse_profiles(
    [
        {"name": "cpu", "gpu": False},
        {"name": "small", "vram": "2 GiB", "cores": 25},
        {"name": "two", "cards": 2, "vram": "3 GiB", "cores": 10},
        {"name": "whole"},
        {"name": "free", "vram": "6 GiB", "min_vram": "1 GiB"},
    ]
)
CARDS = tuple(Card(uuid=CardUuid(f"GPU-{i}"), index=i, model="T4", vram=Mib(15360)) for i in range(2))
STATES = tuple(CardState(card) for card in CARDS)


def charge(user: str, gib: int, cores: int = 0) -> Charge:
    return Charge(
        holder=SliceId(f"{user}/"), user=user, group="", profile="small", cards=1, vram=Mib(gib * 1024), cores=cores,
        since=0.0,
    )  # fmt: skip


def budget(group: str, *charges: Charge, **properties: str) -> Budget:
    quota, faults = parse_quota({f"hami.{key.replace('_', '-')}": value for key, value in properties.items()})
    return Budget(group, quota, charges, faults)


def context(*budgets: Budget, user: str = "ann", chosen: dict[str, str] | None = None) -> FormContext:
    def why(refused) -> str:
        return f"{refused.group} says no."

    offered = offers_within(offers(PROFILES, STATES), budgets, user, CARDS, why)
    return FormContext(
        STATES,
        offered,
        chosen or {},
        budgets=budget_lines(budgets, user, (chosen or {}).get("group", "")),
        bills=bills(PROFILES, budgets, user, CARDS, why),
    )


@pytest.mark.parametrize(
    ("use", "left", "text"),
    [
        (Use(0, 0, 24576), "24 GiB left", "0 GiB of 24 GiB in use."),
        (Use(12288, 4096, 24576), "12 GiB left", "12 GiB of 24 GiB in use, 4 GiB by you."),
        (Use(12288, 4096, 24576, 6144), "2 GiB left", "12 GiB of 24 GiB in use; you have 4 GiB of your 6 GiB."),
        (Use(23552, 0, 24576, 6144), "1 GiB left", "23 GiB of 24 GiB in use; you have 0 GiB of your 6 GiB."),
        (Use(9000, 4096, None, 6144), "2 GiB left", "You have 4 GiB of 6 GiB."),
        (Use(30720, 0, 24576), "0 GiB left", "30 GiB of 24 GiB in use."),
        (Use(0, 0, 0), "0 GiB left", "0 GiB of 0 GiB in use."),
    ],
    ids=["unused", "used by several", "a limit of one's own", "the group's is nearer", "only one's own", "lowered",
         "nothing allowed"],
)  # fmt: skip
def test_a_gauge_says_in_words_all_that_it_shows(use, left, text):
    [line] = budgets_view((BudgetLine(group="ml", vram=use, cores=Use(0, 0), servers=Use(0, 0)),)).lines
    [gauge] = line.gauges
    assert (gauge.left, gauge.text) == (left, text)


@given(
    st.integers(0, 10**6), st.integers(0, 10**6), st.none() | st.integers(0, 10**6), st.none() | st.integers(0, 9999)
)
def test_a_bar_is_never_longer_than_its_track(mine, others, limit, my_limit):
    use = Use(mine + others, mine, limit, my_limit)
    for line in budgets_view((BudgetLine(group="", vram=use, cores=use, servers=use),)).lines:
        for gauge in line.gauges:
            assert gauge.mine >= 0
            assert gauge.others >= 0
            assert gauge.mine + gauge.others <= 100


def test_what_nobody_limits_is_not_shown():
    assert Page(render_form(context(budget("")))).all("div", **{"class": "hami-gauge"}) == []
    unlimited = form_view(context(budget("", weight="2")))
    assert unlimited.budgets.lines == ()
    only_vram = form_view(context(budget("ml", vram="24GiB"))).budgets
    assert [gauge.kind for gauge in only_vram.lines[0].gauges] == ["vram"]


def test_one_budget_is_shown_and_several_are_asked_about():
    one = Page(render_form(context(budget("ml", vram="24GiB"))))
    assert "Budget of ml" in one.text
    assert not one.all("input", name="group")
    two = Page(render_form(context(budget("ml", vram="24GiB"), budget("bio", vram="8GiB"))))
    assert [radio["value"] for radio in two.all("input", name="group")] == ["", "ml", "bio"]
    assert ["checked" in radio for radio in two.all("input", name="group")] == [True, False, False]


def test_the_group_that_paid_the_last_time_is_picked_again_upper_and_lower_case_being_the_same():
    shown = Page(render_form(context(budget("ml", vram="24GiB"), budget("Bio", vram="8GiB"), chosen={"group": "bio"})))
    assert [radio["value"] for radio in shown.all("input", name="group") if "checked" in radio] == ["Bio"]


def test_a_group_that_is_left_is_said():
    chosen = {"profile": "small", "group": "old <b>"}
    ctx = context(budget("ml", vram="24GiB"), chosen=chosen)
    assert form_view(ctx).notice == 'The group "old <b>" doesn\'t pay for you any more.'


def test_a_quota_that_is_written_wrongly_pays_for_nothing_and_says_what_would_be_right():
    wrong = context(budget("ml", vram="24 GB"), budget("bio", vram="8GiB"), chosen={"group": "ml"})
    view, shown = form_view(wrong), Page(render_form(wrong))
    assert not view.budgets.lines[0].gauges
    assert "decimal unit" in shown.text
    by_value = {radio["value"]: radio for radio in shown.all("input", name="group")}
    assert "disabled" in by_value["ml"]
    assert "checked" in by_value[""]


def test_a_profile_that_nobody_pays_for_is_greyed_out_with_the_reason():
    shown = Page(render_form(context(budget("ml", charge("ann", 4), vram="8GiB"))))
    assert shown.disabled == {"two", "whole"}
    assert shown.text.count("ml says no.") >= 2
    lines = {line.name: line for line in form_view(context(budget("ml", charge("ann", 4), vram="8GiB"))).profiles}
    assert lines["whole"].badge.text == "Over quota"
    assert lines["small"].badge.text == "Starts now"


def test_a_free_amount_is_preset_to_what_is_paid_for():
    def preset(*budgets: Budget) -> str:
        [line] = [line for line in form_view(context(*budgets)).profiles if line.name == "free"]
        return line.amounts[0].value

    assert preset(budget("")) == "6 GiB"
    assert preset(budget("ml", vram="24GiB")) == "6 GiB"
    assert preset(budget("ml", charge("eve", 4), vram="8GiB")) == "4 GiB"
    assert preset(budget("ml", vram="4GiB"), budget("bio", vram="5GiB")) == "5 GiB"


def test_bills_name_who_would_pay_and_why_others_do_not():
    full, empty = budget("full", charge("eve", 7), vram="8GiB"), budget("empty", vram="8GiB")
    assert bills(PROFILES, (full, empty), "ann", CARDS, lambda refused: f"{refused.left} left") == {
        "small": Bill(payer="empty", refusals={"full": "1024 left"}),
        "two": Bill(payer="empty", refusals={"full": "1024 left"}),
        "whole": Bill(payer=None, refusals={"full": "1024 left", "empty": "8192 left"}),
        # Less than what is preset would do.
        "free": Bill(payer="empty", refusals={}),
    }


def test_the_script_is_told_what_each_profile_takes_over_all_its_cards():
    told = json.loads(form_view(context(budget("ml", vram="99GiB"))).live)["profiles"]
    assert {name: (each["vram"], each["cores"], each["cards"]) for name, each in told.items()} == {
        "small": (2048, 25, 1),
        "two": (6144, 20, 2),
        "whole": (15360, 100, 1),
        "free": (6144, 0, 1),
    }


def test_the_page_stays_small_for_somebody_in_fifty_groups():
    groups = [budget(f"group-{i}", charge("eve", 8), vram="8GiB") for i in range(50)]
    view = form_view(context(*groups))
    assert len(view.budgets.lines) == 50
    assert "says no" not in view.live
    assert len(view.live) < 20_000


HOSTILE = '"><script>hit()</script>{{ 7*7 }}{% if x %}{# note'


def test_groups_names_and_values_stay_text():
    html = render_form(
        context(budget(HOSTILE, vram=HOSTILE), budget(f"{HOSTILE}2", vram="8GiB"), chosen={"group": f"{HOSTILE}2"})
    )
    shown = Page(html)
    assert len(shown.all("script")) == 1
    assert HOSTILE in shown.text
    assert HOSTILE in {radio["value"] for radio in shown.all("input", name="group")}
    assert "{{" not in html
    assert "{%" not in html
    assert "{#" not in html
