"""Every state of the form and the waiting page by axe-core's rules for WCAG 2.2 A and AA, light, dark and in three
languages, and what no rule finds: zoom, motion, focus behind what sticks.
"""

from __future__ import annotations

import time

import pytest
from form_page import type_amount
from form_scenes import SCENES
from playwright.sync_api import expect


@pytest.mark.parametrize("account", SCENES)
def test_no_rule_is_broken_on_the_form(form, violations, account):
    # So tall that nothing is behind the Start button, which sticks to the window's lower edge.
    page = form(account, color_scheme="light", reduced_motion="reduce", viewport={"width": 1100, "height": 4000})
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.locator(f"html[data-bs-theme={scheme}]").wait_for()
        assert violations(page, "#spawn_form") == []


@pytest.mark.parametrize("state", ["too much", "other group", "not found", "refused", "out of date"])
def test_no_rule_is_broken_whatever_was_done(form, violations, state):
    account = "tina" if state == "not found" else "quinn"
    page = form(account, reduced_motion="reduce", viewport={"width": 1100, "height": 2400})
    if state == "too much":
        type_amount(page, "100 GiB")
        page.keyboard.press("Tab")
    elif state == "other group":
        page.get_by_role("radio", name="8 GiB · 50 %").check()
        page.get_by_role("radio", name="bio101").check()
    elif state == "not found":
        page.get_by_label("Search the profiles").fill("nothing like it")
    elif state == "refused":
        page.get_by_role("button", name="Start").click()
        page.locator(".spawn-error-msg").wait_for()
    else:
        page.context.clear_cookies()
        page.evaluate("() => document.dispatchEvent(new Event('visibilitychange'))")
        page.locator("#hami-stale").wait_for()
    assert violations(page, "#spawn_form") == []


@pytest.mark.parametrize("language", ["ja", "zh-CN"])
def test_the_form_is_in_the_readers_language_and_says_which_it_is(form, violations, language):
    page = form("quinn", locale=language, reduced_motion="reduce", viewport={"width": 1100, "height": 2400})
    words = {"ja": "プロファイル", "zh-CN": "配置"}[language]
    expect(page.locator("#hami-form legend").last).to_have_text(words)
    assert page.locator("#hami-form").get_attribute("lang") == {"ja": "ja", "zh-CN": "zh-Hans"}[language]
    # What an admin reads of a wrong value and what the hub itself says may be English.
    shown = page.locator("#hami-form").inner_text()
    assert "in use" not in shown
    assert "Starts now" not in shown
    page.get_by_role("radio", name="4 GiB · 25 %").check()
    assert "Your choice" not in page.locator("#hami-form").inner_text()
    assert "pays" not in page.locator("#hami-summary").inner_text()
    assert violations(page, "#spawn_form") == []


@pytest.mark.parametrize("end", ["in line", "asked once more", "starting", "failed"])
def test_no_rule_is_broken_while_a_server_starts(waiting, violations, end):
    page, start = waiting()
    if end == "asked once more":
        page.get_by_role("button", name="Cancel").click()
    elif end == "starting":
        start.tell(50, "Your server is starting.")
        page.get_by_role("heading", name="Your server is starting").wait_for()
    elif end == "failed":
        start.fail("It did not come free.")
        page.get_by_role("heading", name="Your server was not started").wait_for()
    else:
        start.wait(frees_at=time.time() + 600)
        page.locator("#hami-frees").wait_for()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.locator(f"html[data-bs-theme={scheme}]").wait_for()
        assert violations(page, "#hami-waiting") == []


@pytest.mark.parametrize("account", ["quinn", "hugo", "tina", "sam"])
def test_at_twice_the_size_nothing_needs_scrolling_sideways(form, account):
    # 1280 px at 200 % are 640, at 400 % (WCAG 1.4.10) 320.
    for width in (640, 360, 320):
        page = form(account, viewport={"width": width, "height": 512})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_who_wants_less_motion_gets_none(form):
    page = form("olga", reduced_motion="reduce")
    assert page.locator(".hami-part").first.evaluate("e => getComputedStyle(e).transitionDuration") == "0s"


def test_what_has_the_focus_is_never_behind_the_start_button(form):
    page = form("tina", viewport={"width": 1000, "height": 620}, reduced_motion="reduce")
    page.get_by_role("radio").first.focus()
    for _ in range(39):
        page.keyboard.press("ArrowDown")
        hidden = page.evaluate("""() => {
            const focus = document.activeElement.getBoundingClientRect();
            return focus.bottom > document.querySelector(".feedback-container").getBoundingClientRect().top;
        }""")
        assert not hidden


def test_the_form_is_read_in_the_order_in_which_it_is_done(form):
    page = form("quinn")
    order = page.evaluate(
        "() => [...document.querySelectorAll('#spawn_form :is(h2, legend, button[type=submit])')].map(e => e.innerText)"
    )
    assert order == ["GPU", "Who pays", "Profile", "Start"]
