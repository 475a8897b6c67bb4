"""The spawn form while it is open: it follows what is free, and leaves alone what the person does."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from form_page import line, type_amount
from playwright.sync_api import expect

SECOND, MINUTE = 1000, 60_000


@pytest.fixture
def shown_as(form_hub_folder):
    """What an account sees from now on is another one's scene."""
    files = []

    def show(account: str, scene: str) -> None:
        files.append(form_hub_folder / f"{account}.scene")
        files[-1].write_text(scene)

    yield show
    for file in files:
        file.unlink(missing_ok=True)


@pytest.fixture
def watched(form):
    """The form of an account in a page whose clock only the test turns, and what the page has asked for since."""

    def opened(account: str, **options):
        page = form(account, **options)
        page.clock.install()
        page.clock.pause_at(datetime.now() + timedelta(hours=1))
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.reload()
        page.locator("#hami-form").wait_for()
        asked.clear()
        return page, asked

    return opened


def badge(page, profile: str):
    return line(page, profile).locator(".hami-badge")


def test_what_has_become_free_is_shown_without_a_reload(watched, shown_as):
    page, _ = watched("carol")
    expect(badge(page, "8 GiB · 50 %")).to_have_text("Waits")
    shown_as("carol", "alice")
    page.clock.run_for(MINUTE)
    expect(badge(page, "8 GiB · 50 %")).to_have_text("Starts now")
    expect(page.locator(".hami-cards")).to_contain_text("Tesla T4, 15 GiB, all free")
    expect(page.locator("#hami-summary")).to_have_text("8 GiB · 50 %: Starts now.")


def test_focus_choice_typed_text_and_scroll_stay(watched, shown_as):
    page, _ = watched("bob")
    page.get_by_role("radio", name="Another amount").check()
    field = page.get_by_label("VRAM")
    field.fill("3 GiB")
    field.evaluate("e => e.setSelectionRange(1, 2)")
    shown_as("bob", "carol")
    page.clock.run_for(MINUTE)
    expect(page.locator(".hami-cards")).to_contain_text("3 GiB free")
    assert page.get_by_role("radio", name="Another amount").is_checked()
    assert field.input_value() == "3 GiB"
    assert field.evaluate("e => e === document.activeElement && e.selectionStart === 1 && e.selectionEnd === 2")
    assert "3 GiB or less fits now" in page.locator("[id='profile-option-gpu-other--vram-hint']").inner_text()


def test_an_amount_that_nobody_touched_follows_what_is_preset(watched, shown_as):
    page, _ = watched("bob")
    field = page.locator("[id='profile-option-gpu-other--vram']")
    assert field.input_value() == "6 GiB"
    shown_as("bob", "carol")
    page.clock.run_for(MINUTE)
    expect(field).to_have_value("3 GiB")


def test_profiles_may_come_and_go_and_the_choice_stays(watched, shown_as):
    page, _ = watched("alice")
    page.get_by_role("radio", name="4 GiB · 25 %").check()
    shown_as("alice", "gina")
    page.clock.run_for(MINUTE)
    expect(page.get_by_role("radio", name="40 GiB")).to_be_attached()
    assert page.get_by_role("radio", name="2 GiB", exact=True).count() == 0
    assert page.get_by_role("radio", name="4 GiB · 25 %").is_checked()


def test_a_choice_that_can_no_longer_be_had_stays_and_says_why(watched, shown_as):
    page, _ = watched("olga")
    page.get_by_role("radio", name="4 GiB · 25 %").check()
    shown_as("olga", "paul")
    page.clock.run_for(MINUTE)
    expect(badge(page, "4 GiB · 25 %")).to_have_text("Over quota")
    assert page.get_by_role("radio", name="4 GiB · 25 %").is_checked()
    assert page.get_by_role("radio", name="4 GiB · 25 %").is_enabled()
    assert page.get_by_role("radio", name="8 GiB · 50 %").is_disabled()
    expect(page.locator("#hami-summary")).to_have_text(re.compile("4 GiB · 25 %: Over quota"))


def test_the_picked_group_stays(watched, shown_as):
    page, _ = watched("quinn")
    page.get_by_role("radio", name="bio101").check()
    page.get_by_role("radio", name="2 GiB", exact=True).check()
    shown_as("quinn", "ruth")
    page.clock.run_for(MINUTE)
    expect(page.get_by_role("radio", name="new")).to_be_attached()
    assert page.get_by_role("radio", name="bio101").is_checked()
    expect(page.locator('.hami-budget[data-group="bio101"]')).to_contain_text("8 GiB of 8 GiB in use")
    expect(page.locator("#hami-summary")).to_have_text("2 GiB: Over quota.")


def test_only_a_change_of_what_is_picked_is_announced(watched, shown_as):
    page, _ = watched("alice")
    page.evaluate("""() => {
        window.announced = [];
        new MutationObserver(() => window.announced.push(document.getElementById("hami-summary").textContent))
            .observe(document.getElementById("hami-summary"), {childList: true, characterData: true, subtree: true});
    }""")
    assert page.locator("#hami-summary").get_attribute("role") == "status"
    shown_as("alice", "carol")
    page.clock.run_for(MINUTE)
    expect(badge(page, "8 GiB · 50 %")).to_have_text("Waits")
    assert page.evaluate("window.announced") == []
    page.get_by_role("radio", name="8 GiB · 50 %").check()
    shown_as("alice", "alice")
    page.clock.run_for(MINUTE)
    expect(badge(page, "8 GiB · 50 %")).to_have_text("Starts now")
    assert page.evaluate("window.announced") == ["8 GiB · 50 %: Waits.", "8 GiB · 50 %: Starts now."]


def test_it_never_asks_with_the_options_that_would_start_a_server(form, form_hub):
    page = form("alice", link="/hub/spawn?opt-profile=gpu-4g&opt-preselect=1")
    page.clock.install()
    page.reload()
    page.locator("#hami-form").wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_request("**/hub/spawn"):
        page.clock.run_for(MINUTE)
    assert set(asked) == {f"{form_hub}/hub/spawn"}
    assert page.get_by_role("radio", name="4 GiB · 25 %").is_checked()


def test_it_asks_less_often_where_nothing_changes_and_stops_where_nobody_looks(watched):
    page, asked = watched("alice")
    asking = set()
    page.on("request", lambda request: asking.add(request))
    page.on("requestfinished", lambda request: asking.discard(request))

    def turn(times: int, by: int) -> None:
        for _ in range(times):
            page.clock.run_for(by)
            while asking:
                page.wait_for_timeout(10)

    turn(60, SECOND)
    first = len(asked)
    assert 3 <= first <= 8
    turn(40, MINUTE)
    late = len(asked)
    page.clock.run_for(10 * MINUTE)
    assert len(asked) == late
    with page.expect_request("**/hub/spawn"):
        page.keyboard.press("Shift")
        page.clock.run_for(1000)


def test_a_hidden_tab_asks_nothing_and_looks_at_once_when_it_is_seen_again(watched):
    page, asked = watched("alice")
    hide = """hidden => {
        Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    page.evaluate(hide, True)
    page.clock.run_for(10 * MINUTE)
    assert asked == []
    page.evaluate(hide, False)
    with page.expect_response("**/hub/spawn"):
        page.clock.run_for(1000)


def test_a_hub_that_is_away_is_said_with_the_time_of_what_is_shown(watched):
    page, _ = watched("alice")
    page.route("**/hub/spawn", lambda route: route.abort())
    page.clock.run_for(MINUTE)
    stale = page.locator("#hami-stale")
    expect(stale).to_contain_text("The hub doesn't answer. What you see is from")
    page.unroute("**/hub/spawn")
    page.clock.run_for(3 * MINUTE)
    expect(stale).to_be_hidden()


def test_a_person_who_is_logged_out_is_told_and_keeps_what_they_typed(watched):
    page, asked = watched("alice")
    type_amount(page, "3 GiB")
    page.context.clear_cookies()
    page.clock.run_for(MINUTE)
    expect(page.locator("#hami-stale")).to_contain_text("This page is out of date")
    expect(page.get_by_role("link", name="Reload the page")).to_be_visible()
    assert page.get_by_label("VRAM").input_value() == "3 GiB"
    asked.clear()
    page.clock.run_for(10 * MINUTE)
    assert asked == []
