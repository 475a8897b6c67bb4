"""Links to the spawn form, followed in a browser: those that start, those that only pick, and strangers."""

from __future__ import annotations

import pytest
from form_page import picked, start
from playwright.sync_api import expect


def checked(page) -> str:
    return page.locator("input[name=profile]:checked").get_attribute("value")


@pytest.mark.parametrize("javascript", [True, False])
def test_a_link_that_picks_starts_nothing_until_the_person_does(form, javascript):
    link = "/hub/spawn?opt-profile=gpu-other&opt-vram=3%20GiB&opt-cores=20&opt-preselect=1"
    page = form("alice", link=link, java_script_enabled=javascript)
    assert page.locator(".spawn-error-msg").count() == 0
    assert checked(page) == "gpu-other"
    assert page.get_by_label("VRAM").input_value() == "3 GiB"
    assert start(page) == {"profile": "gpu-other", "vram": "3 GiB", "cores": "20"}


def test_a_link_picks_who_pays(form):
    page = form("quinn", link="/hub/spawn?opt-profile=gpu-2g&opt-group=BIO101&opt-preselect=1")
    assert page.get_by_role("radio", name="bio101").is_checked()
    assert checked(page) == "gpu-2g"


def test_a_link_survives_the_login(form_hub, new_page):
    page = new_page()
    page.goto(f"{form_hub}/hub/spawn?opt-profile=gpu-4g&opt-preselect=1")
    page.get_by_label("Username").fill("alice")
    page.get_by_label("Password").fill("any")
    page.get_by_role("button", name="Sign in").click()
    page.locator("#hami-form").wait_for()
    assert checked(page) == "gpu-4g"


def test_a_link_without_the_word_starts_at_once(form):
    page = form("alice", link="/hub/spawn?opt-profile=gpu-other&opt-vram=3GiB&opt-group=ml")
    assert picked(page) == {"group": "ml", "profile": "gpu-other", "vram": "3GiB"}


@pytest.mark.parametrize("query", ["_xsrf=2%7Cx", "utm_source=mail&fbclid=1", "opt-vram=3GiB", "opt-preselect=1"])
def test_a_stranger_to_the_form_starts_nothing(form, query):
    page = form("alice", link=f"/hub/spawn?{query}")
    assert page.locator(".spawn-error-msg").count() == 0
    assert checked(page) == "cpu"


def test_the_address_of_a_refusal_can_be_visited_again(form):
    page = form("alice")
    page.get_by_role("button", name="Start").click()
    page.locator(".spawn-error-msg").wait_for()
    assert "_xsrf=" in page.url
    page.goto(page.url)
    expect(page.locator("#hami-form")).to_be_visible()
    assert page.locator(".spawn-error-msg").count() == 0


@pytest.mark.parametrize(
    ("account", "query", "said"),
    [
        ("alice", "opt-profile=gone", 'The link picks the profile "gone", which isn\'t offered here.'),
        ("gina", "opt-profile=lab", "The link picks 8 GiB · 50 %, which you can't have now."),
        ("alice", "opt-profile=<b>x</b>", 'The link picks the profile "<b>x</b>", which isn\'t offered here.'),
    ],
)
def test_what_a_link_cannot_pick_is_said(form, account, query, said):
    page = form(account, link=f"/hub/spawn?{query}&opt-preselect=1")
    expect(page.locator("#hami-notice")).to_have_text(said)
    assert checked(page) == "cpu"
