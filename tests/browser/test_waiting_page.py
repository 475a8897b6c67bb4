"""The page of a start that takes a while: place in line, why, since when, cancel, and how it ends."""

from __future__ import annotations

import re
import time

import pytest
from form_starts import WHY
from playwright.sync_api import expect


def told(page) -> str:
    return page.locator("#progress-message").inner_text()


def test_place_in_line_and_why_are_said_in_words(waiting):
    page, start = waiting()
    expect(page.get_by_role("heading", name="Waiting for a slice")).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="You are 2nd in line.")).to_be_visible()
    expect(page.locator("#hami-position")).to_have_text(re.compile(r"Place in line\s*2"))
    expect(page).to_have_title("(2) Waiting for a slice")
    start.wait(1, "You are 1st in line.")
    expect(page.locator("#progress-message")).to_have_text("You are 1st in line.")
    expect(page).to_have_title("(1) Waiting for a slice")
    start.tell(50, "You have 4 GiB of a Tesla T4. Your server is starting.")
    expect(page.get_by_role("heading", name="Your server is starting")).to_be_visible()
    expect(page).to_have_title("Your server is starting")
    expect(page.locator("#hami-position")).to_be_hidden()
    expect(page.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "50")


def test_when_a_slice_comes_free_is_a_time_of_day(waiting):
    page, start = waiting(timezone_id="Asia/Tokyo", locale="en-GB")
    expect(page.locator("#hami-frees")).to_be_hidden()
    start.wait(1, "soon", frees_at=1_800_000_000)
    expect(page.locator("#hami-frees")).to_have_text(re.compile(r"A slice comes free by\s*17:00|5:00\s?PM"))


def test_the_time_of_the_wait_counts_on_after_a_reload(waiting):
    page, _ = waiting()
    clock = page.locator("#hami-elapsed dd")
    expect(clock).to_have_text(re.compile(r"^\d+:\d\d$"))
    page.wait_for_function("document.querySelector('#hami-elapsed dd').textContent !== '0:00'")
    page.reload()
    expect(clock).not_to_have_text("0:00")
    expect(page.locator("#progress-message")).to_contain_text("You are 2nd in line.")


def test_all_that_happened_can_be_read_and_is_said_once(waiting):
    page, start = waiting()
    start.wait(1, "You are 1st in line.")
    expect(page.locator("#progress-log li")).to_have_count(2)
    page.get_by_text("What happened so far").click()
    expect(page.locator("#progress-log")).to_contain_text("You are 2nd in line.")
    page.reload()
    expect(page.locator("#progress-log li")).to_have_count(2)


def test_giving_up_a_place_in_line_is_asked_about_once_more(waiting, form_hub):
    page, _ = waiting()
    page.get_by_role("button", name="Cancel").click()
    keep = page.get_by_role("button", name="Keep waiting")
    expect(keep).to_be_focused()
    expect(page.get_by_text("If you cancel you give up your place in line.")).to_be_visible()
    keep.click()
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Give up the place").click()
    page.locator("#hami-form").wait_for()
    assert page.request.get(f"{form_hub}/hub/api/users/wanda").json()["servers"].get("") is None


def test_a_start_that_is_under_way_is_cancelled_at_once_by_keyboard(waiting):
    page, start = waiting()
    start.tell(50, "Your server is starting.")
    expect(page.get_by_role("heading", name="Your server is starting")).to_be_visible()
    page.get_by_role("button", name="Cancel").focus()
    page.keyboard.press("Enter")
    page.locator("#hami-form").wait_for()


def test_a_named_server_is_cancelled_and_no_other(waiting, form_hub):
    page, _ = waiting(server="second")
    assert "/spawn-pending/wanda/second" in page.url
    servers = f"{form_hub}/hub/api/users/wanda"
    assert page.request.get(servers).json()["servers"]["second"]["pending"] == "spawn"
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Give up the place").click()
    page.locator("#hami-form").wait_for()
    assert page.url.endswith("/hub/spawn/wanda/second")


def test_a_cancel_that_fails_says_so_and_may_be_tried_again(waiting):
    page, _ = waiting()
    page.route("**/hub/api/users/wanda/server*", lambda route: route.fulfill(status=503, json={"message": "no"}))
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Give up the place").click()
    expect(page.get_by_text("The start could not be cancelled.")).to_be_visible()
    page.unroute("**/hub/api/users/wanda/server*")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Give up the place").click()
    page.locator("#hami-form").wait_for()


def test_an_end_without_a_server_is_said_with_the_reason_and_a_way_on(waiting):
    page, start = waiting()
    why = "8 GiB did not come free in 10 minutes. <b>Pick</b> 7 GiB or less."
    start.fail(why)
    expect(page.get_by_role("heading", name="Your server was not started")).to_be_focused()
    expect(page.locator("#progress-message")).to_have_text(why)
    expect(page).to_have_title("Your server was not started")
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    page.get_by_role("link", name="Choose again").click()
    page.locator("#hami-form").wait_for()


def test_a_hub_that_is_away_is_said_and_waited_for(waiting):
    page, start = waiting()
    expect(page.locator("#progress-log li")).to_have_count(1)
    page.route("**/progress?*", lambda route: route.abort())
    page.evaluate("() => window.stop()")
    page.reload()
    expect(page.get_by_text("The hub doesn't answer. This page tries again by itself.")).to_be_visible()
    page.unroute("**/progress?*")
    start.wait(1, "You are 1st in line.")
    expect(page.locator("#progress-message")).to_have_text("You are 1st in line.")
    expect(page.locator("#hami-trouble")).to_be_hidden()


def reload_until_told(page, words: str) -> None:
    """As somebody without JavaScript comes to know."""
    for _ in range(100):
        if words in told(page):
            return
        page.wait_for_timeout(100)
        page.reload()
    raise AssertionError(told(page))


def test_without_javascript_the_page_says_the_same_and_loads_itself_anew(waiting):
    page, start = waiting(java_script_enabled=False)
    reload_until_told(page, "You are 2nd in line.")
    assert page.locator("meta[http-equiv=refresh]").get_attribute("content") == "5"
    start.wait(1, "You are 1st in line.")
    expect(page.locator("#progress-message")).to_have_text("You are 1st in line.")


@pytest.mark.parametrize("server", ["", "second"])
def test_without_javascript_a_start_is_cancelled_by_a_form(waiting, form_hub, server):
    page, _ = waiting(server, java_script_enabled=False)
    reload_until_told(page, "You are 2nd in line.")
    warning = page.locator("#hami-buttons noscript p")
    expect(warning).to_be_visible()
    expect(warning).to_have_text("If you cancel you give up your place in line.")
    assert page.locator("#hami-buttons").get_by_role("button").count() == 1
    page.get_by_role("button", name="Cancel").click()
    page.locator("#hami-form").wait_for()
    assert page.url.endswith(f"/hub/spawn/wanda/{server}" if server else "/hub/spawn/wanda")
    assert page.request.get(f"{form_hub}/hub/api/users/wanda?include_stopped_servers=0").json()["servers"] == {}


def test_hostile_news_stays_text(waiting):
    page, start = waiting()
    start.wait(1, "<img src=x onerror=hit()> {{ 7 * 7 }}")
    expect(page.locator("#progress-message")).to_have_text("<img src=x onerror=hit()> {{ 7 * 7 }}")
    assert page.locator("#hami-waiting img").count() == 0
    page.reload()
    expect(page.locator("#progress-message")).to_have_text("<img src=x onerror=hit()> {{ 7 * 7 }}")
    assert page.locator("#hami-waiting img").count() == 0


def test_nothing_complains_and_a_narrow_screen_needs_no_scrolling_sideways(waiting):
    page, start = waiting(viewport={"width": 320, "height": 640})
    complaints = []
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    start.wait(12, WHY, frees_at=time.time() + 1200)
    expect(page.locator("#hami-position")).to_contain_text("12")
    page.get_by_role("button", name="Cancel").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert complaints == []


def test_pictures_for_the_docs(waiting, picture):
    page, start = waiting(viewport={"width": 1000, "height": 620})
    start.wait(2, WHY, frees_at=time.time() + 1200)
    expect(page.locator("#hami-frees")).to_be_visible()
    page.mouse.move(0, 0)
    picture(page, "waiting")
