"""The budgets on the spawn form: what a choice takes of them, and who of several groups pays."""

from __future__ import annotations

import re

import pytest
from form_page import line, pick, radio, start, type_amount
from playwright.sync_api import expect


def gauge(page, kind: str, group: str = ""):
    within = page.locator(f'.hami-budget[data-group="{group}"]') if group else page
    return within.locator(f'.hami-gauge[data-kind="{kind}"]')


def test_what_is_used_and_left_stands_in_words_beside_the_bar(form):
    page = form("olga")
    expect(page.get_by_role("region", name="Budget of ml")).to_be_visible()
    expect(gauge(page, "vram")).to_contain_text("12 GiB left")
    expect(gauge(page, "vram")).to_contain_text("12 GiB of 24 GiB in use, 4 GiB by you.")
    expect(gauge(page, "cores")).to_contain_text("75 % of 200 % in use, 25 % by you.")
    expect(gauge(page, "servers")).to_contain_text("3 of 6 in use, 1 by you.")


def test_a_choice_shows_what_it_takes_and_leaves(form):
    page = form("olga")
    pick(page, "4 GiB · 25 %")
    expect(gauge(page, "vram")).to_contain_text("Your choice takes 4 GiB and leaves 8 GiB.")
    expect(gauge(page, "cores")).to_contain_text("Your choice takes 25 % and leaves 100 %.")
    expect(gauge(page, "servers")).to_contain_text("Your choice takes 1 and leaves 2.")
    expect(page.locator("#hami-summary")).to_have_text("4 GiB · 25 %: Starts now. ml pays.")
    pick(page, "CPU only")
    expect(gauge(page, "vram").locator(".hami-then")).to_have_text("")
    expect(page.locator("#hami-summary")).to_have_text("CPU only: Starts now.")


def test_the_bars_parts_are_as_long_as_the_words_say(form):
    page = form("olga", reduced_motion="reduce")
    pick(page, "4 GiB · 25 %")
    widths = gauge(page, "vram").evaluate(
        "e => [...e.querySelectorAll('.hami-part')].map(p => p.getBoundingClientRect().width"
        " / p.parentElement.getBoundingClientRect().width)"
    )
    assert widths == pytest.approx([4 / 24, 8 / 24, 4 / 24], abs=0.01)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("5 GiB", "Your choice takes 5 GiB and leaves 7 GiB."),
        ("1.5GiB", "Your choice takes 1.5 GiB and leaves 10.5 GiB."),
        ("700", "Your choice takes 700 MiB and leaves 11.3 GiB."),
        ("14 GiB", "Your choice takes 14 GiB, that is 2 GiB too much."),
    ],
)
def test_a_typed_amount_counts_as_it_is_typed(form, typed, said):
    page = form("olga")
    type_amount(page, typed)
    expect(gauge(page, "vram").locator(".hami-then")).to_have_text(said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("5 GiB", "5 GiB starts now."),
        ("14 GiB", "14 GiB has to wait; 11 GiB or less starts now."),
        ("100 GiB", "100 GiB can never fit here. Ask for 15 GiB or less."),
        ("10 MiB", "10 MiB is less than this profile allows. Ask for 256 MiB or more."),
        ("4 GB", "This is not an amount of VRAM. Write it like 4 GiB or 4096 MiB."),
    ],
)
def test_a_typed_amount_is_answered_when_its_field_is_left(form, typed, said):
    page = form("bob")
    type_amount(page, typed)
    page.keyboard.press("Tab")
    expect(page.locator("[id='profile-option-gpu-other--vram-hint']")).to_contain_text(said)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("5 GiB", "5 GiB starts now. ml pays."),
        ("12 GiB", "12 GiB has to wait; 11 GiB or less starts now. ml pays."),
        ("13 GiB", "Another amount: Over quota."),
        ("100 GiB", "100 GiB can never fit here. Ask for 15 GiB or less."),
    ],
)
def test_what_start_leads_to_is_said_above_it_for_a_typed_amount_too(form, typed, said):
    page = form("olga")
    type_amount(page, typed)
    expect(page.locator("#hami-summary")).to_have_text(said)


def test_what_the_hub_said_of_an_amount_is_not_said_again(form):
    page = form("hugo")
    pick(page, "Another amount")
    page.get_by_label("VRAM").focus()
    page.keyboard.press("Tab")
    expect(page.locator(".invalid-feedback")).to_contain_text("decimal unit")
    expect(page.locator(".hami-typed").first).to_have_text("")


def test_what_is_over_the_quota_is_greyed_out_with_who_holds_how_much(form):
    page = form("paul")
    closed = line(page, "4 GiB · 25 %")
    expect(closed).to_contain_text("Over quota")
    expect(closed).to_contain_text("2 GiB is left of what the group bio101 has")
    assert page.get_by_role("radio", name="4 GiB · 25 %").is_disabled()
    assert radio(page, "2 GiB").is_enabled()


def test_without_javascript_the_budget_is_there_and_a_group_can_be_picked(form):
    page = form("quinn", java_script_enabled=False)
    expect(gauge(page, "vram", "ml")).to_contain_text("12 GiB of 24 GiB in use, 4 GiB by you.")
    assert "Your choice" not in page.locator(".hami-legend").inner_text()
    pick(page, "bio101")
    pick(page, "2 GiB")
    assert start(page) == {"group": "bio101", "profile": "gpu-2g"}


def test_who_pays_is_asked_of_somebody_in_several_groups(form):
    page = form("quinn")
    expect(page.get_by_role("group", name="Who pays")).to_be_visible()
    assert page.get_by_role("radio", name="The group with the most room for it").is_checked()
    pick(page, "2 GiB")
    expect(page.locator("#hami-summary")).to_have_text("2 GiB: Starts now. ml pays.")
    expect(gauge(page, "vram", "ml").locator(".hami-then")).not_to_have_text("")
    expect(gauge(page, "vram", "bio101").locator(".hami-then")).to_have_text("")
    pick(page, "bio101")
    expect(page.locator("#hami-summary")).to_have_text("2 GiB: Starts now. bio101 pays.")
    expect(gauge(page, "vram", "bio101").locator(".hami-then")).to_contain_text("leaves 0 GiB")
    assert start(page) == {"group": "bio101", "profile": "gpu-2g"}


def test_nobody_named_leaves_it_to_the_hub(form):
    page = form("quinn")
    pick(page, "2 GiB")
    assert start(page) == {"profile": "gpu-2g"}


def test_what_the_picked_group_cannot_pay_for_says_so_and_comes_back_with_another_group(form):
    page = form("quinn")
    pick(page, "bio101")
    expect(line(page, "8 GiB · 50 %")).to_contain_text("Over quota")
    expect(line(page, "8 GiB · 50 %")).to_contain_text("bio101")
    assert page.get_by_role("radio", name="8 GiB · 50 %").is_disabled()
    pick(page, "ml")
    expect(line(page, "8 GiB · 50 %")).to_contain_text("Starts now")
    assert page.get_by_role("radio", name="8 GiB · 50 %").is_enabled()


def test_what_is_picked_stays_picked_when_the_group_cannot_pay_and_says_why(form):
    page = form("quinn")
    pick(page, "8 GiB · 50 %")
    pick(page, "bio101")
    assert page.get_by_role("radio", name="8 GiB · 50 %").is_checked()
    expect(page.locator("#hami-summary")).to_have_text("8 GiB · 50 %: Over quota.")


def test_a_group_whose_quota_is_written_wrongly_cannot_be_picked(form):
    page = form("quinn")
    assert page.get_by_role("radio", name="typo").is_disabled()
    expect(page.locator(".hami-budget", has=page.get_by_role("radio", name="typo"))).to_contain_text("decimal unit")


def test_fifty_groups_do_not_push_the_profiles_off_the_page(form):
    page = form("sam")
    assert page.get_by_role("radio", name=re.compile("group-")).count() == 50
    assert page.locator(".hami-payers").bounding_box()["height"] < 450
    pick(page, "group-50")
    assert page.get_by_role("radio", name="group-50").is_checked()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_forty_profiles_can_be_searched_by_keyboard(form):
    page = form("tina")
    search = page.get_by_label("Search the profiles")
    search.fill("course 17")
    expect(page.locator(".hami-profile:visible")).to_have_count(2)  # and the one that is picked
    page.keyboard.press("Enter")  # looks, doesn't start
    page.get_by_role("radio", name="9 GiB · 17 %").check()
    search.fill("nothing like it")
    expect(page.get_by_text("No profile has this in its name.")).to_be_visible()
    assert start(page) == {"profile": "p17"}


def test_start_is_at_hand_however_long_the_list_is(form):
    page = form("tina")
    assert page.get_by_role("button", name="Start").evaluate("e => e.getBoundingClientRect().bottom <= innerHeight")


def test_hostile_names_of_groups_stay_text(form):
    page = form("mallory")
    assert page.locator(".hami-form :is(script, b, i)").count() == 0
    pick(page, "<i>ml</i>")
    page.get_by_label("VRAM").fill("2 GiB")
    expect(page.locator("#hami-summary")).to_have_text("2 GiB starts now. <i>ml</i> pays.")
    assert page.locator("#hami-summary i").count() == 0
