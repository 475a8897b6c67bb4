"""The spawn form in a real hub's page, as people meet it: mouse, keyboard, narrow, dark, without JavaScript."""

from __future__ import annotations

from pathlib import Path

import pytest
from form_page import line, picked, radio, start, type_amount
from form_scenes import SCENES
from playwright.sync_api import expect

CONTRAST = (Path(__file__).parent / "contrast.js").read_text()


def click_on(page, text: str) -> None:
    box = page.get_by_text(text, exact=True).bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_cpu_only_is_picked_unless_one_picks_something_else(form):
    assert start(form("alice")) == {"profile": "cpu"}


def test_a_click_anywhere_on_a_line_picks_it(form):
    page = form("alice")
    click_on(page, "Half of the card's time.")
    assert radio(page, "8 GiB · 50 %").is_checked()
    click_on(page, "4 GiB · 25 %")
    assert start(page) == {"profile": "gpu-4g"}


def test_by_keyboard_alone_from_login_to_start(form_hub, new_page):
    page = new_page()
    page.goto(f"{form_hub}/hub/login")
    expect(page.get_by_label("Username")).to_be_focused()
    page.keyboard.type("alice")
    page.keyboard.press("Tab")
    page.keyboard.type("any")
    page.keyboard.press("Enter")
    page.get_by_role("group", name="Profile").wait_for()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "profile":
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    focused = page.locator(".hami-profile", has=page.locator(":focus"))
    assert "4 GiB · 25 %" in focused.inner_text()
    assert focused.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert picked(page) == {"profile": "gpu-4g"}


def test_another_amount_by_keyboard_alone(form):
    page = form("alice")
    radio(page, "CPU only").focus()
    page.keyboard.press("ArrowUp")  # past the first comes the last
    page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("5 GiB")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("30")
    page.keyboard.press("Enter")
    assert picked(page) == {"profile": "gpu-other", "vram": "5 GiB", "cores": "30"}


@pytest.mark.parametrize("javascript", [True, False])
def test_the_amounts_fields_are_there_only_when_they_count(form, javascript):
    page = form("alice", java_script_enabled=javascript)
    vram = page.get_by_label("VRAM")
    assert not vram.is_visible()
    radio(page, "Another amount").check()
    assert vram.is_visible()
    vram.fill("rubbish")
    radio(page, "2 GiB").check()
    assert not vram.is_visible()
    assert start(page) == {"profile": "gpu-2g"}


def test_without_javascript_the_form_is_sent_all_the_same(form):
    page = form("alice", java_script_enabled=False)
    type_amount(page, "700 MiB")
    assert start(page) == {"profile": "gpu-other", "vram": "700 MiB", "cores": "0"}


def test_what_cannot_be_had_cannot_be_picked(form):
    page = form("gina")
    for name in ("8 GiB · 50 %", "40 GiB"):
        assert radio(page, name).is_disabled()
        line(page, name).click(position={"x": 200, "y": 20})
        assert not radio(page, name).is_checked()
    radio(page, "4 GiB · 25 %").focus()
    page.keyboard.press("ArrowDown")
    assert radio(page, "CPU only").is_checked()


@pytest.mark.parametrize(
    ("account", "name", "words"),
    [
        ("alice", "4 GiB · 25 %", ["Starts now", "A quarter of the card's time."]),
        ("carol", "8 GiB · 50 %", ["Waits", "the Tesla T4 has 3 GiB free, 8 GiB are asked for."]),
        ("gina", "8 GiB · 50 %", ["Not yours", "Only for members of bio101."]),
        ("fritz", "2 GiB", ["No GPU", "The NVIDIA driver doesn't answer", "hami-hub doctor"]),
    ],
)
def test_a_screen_reader_says_what_a_line_leads_to(form, account, name, words):
    page = form(account)
    described = page.evaluate(
        "e => e.getAttribute('aria-describedby').split(' ').map(i => document.getElementById(i).innerText).join(' ')",
        radio(page, name).element_handle(),
    )
    assert all(word in described for word in words)


def test_a_wrong_amount_is_marked_in_words_and_tied_to_its_field(form):
    field = form("hugo").get_by_label("VRAM")
    assert field.input_value() == "12 GB"
    assert field.get_attribute("aria-invalid") == "true"
    error, hint = field.get_attribute("aria-describedby").split()
    assert "decimal unit" in field.page.locator(f"[id='{error}']").inner_text()
    assert "11 GiB or less fits now" in field.page.locator(f"[id='{hint}']").inner_text()


@pytest.mark.parametrize("account", SCENES)
def test_all_text_can_be_read_in_light_and_dark_and_on_a_narrow_screen(form, account):
    page = form(account, color_scheme="light")
    page.mouse.move(0, 0)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.locator(f"html[data-bs-theme={scheme}]").wait_for()
        assert page.locator(".hami-form").evaluate(CONTRAST) == []
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    for each in page.locator(".hami-profile").all():
        assert each.bounding_box()["height"] >= 44


def test_the_measure_of_contrast_sees_pale_text(form):
    page = form("alice")
    page.add_style_tag(content=".hami-about { color: #aaa !important }")
    assert page.locator(".hami-form").evaluate(CONTRAST)


def test_hostile_text_stays_text(form):
    page = form("mallory")
    said = page.locator(".hami-form").inner_text()
    assert "<b>bold</b> {{ 7 * 7 }} {% raw %}" in said
    assert "<i>T4</i>, 15 GiB, all free" in said
    assert page.locator(".hami-form :is(script, b, i)").count() == 0
    assert page.get_by_label("VRAM").input_value() == '"><script>hit()</script>'


def test_nothing_is_fetched_from_elsewhere_and_nothing_complains(form, form_hub):
    page = form("bob")
    asked, complaints = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.reload(wait_until="networkidle")
    assert asked
    assert all(url.startswith(form_hub) for url in asked)
    assert complaints == []


def test_pictures_for_the_docs(form, picture):
    tall = {"viewport": {"width": 1000, "height": 1240}}
    pictures = {
        "form-light": ("olga", "4 GiB · 25 %", {}),
        "form-dark": ("olga", "4 GiB · 25 %", {"color_scheme": "dark"}),
        "form-narrow": ("olga", "4 GiB · 25 %", {"viewport": {"width": 360, "height": 1400}}),
        "form-who-pays": ("uma", "2 GiB", {"viewport": {"width": 1000, "height": 1480}}),
        "form-over-quota": ("paul", "2 GiB", {"viewport": {"width": 1000, "height": 1320}}),
        "form-many-cards": ("ines", "4 GiB · 25 %", {}),
        "form-no-driver": ("fritz", "CPU only", {}),
        "form-japanese": ("olga", "4 GiB · 25 %", {"locale": "ja"}),
    }
    for name, (account, profile, options) in pictures.items():
        page = form(account, **{**tall, "reduced_motion": "reduce", **options})
        page.get_by_role("radio", name=profile, exact=True).check()
        page.evaluate("() => document.activeElement.blur()")
        page.mouse.move(0, 0)
        picture(page, name, full_page=True)
