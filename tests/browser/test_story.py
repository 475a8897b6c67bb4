"""The project's story in a browser, against the real demo on a simulated T4: alice and bob take 4 GiB each, alice's
notebook meets its limit, carol asks for more than is left, reads why, and is let in when bob stops.

The tests of this file are one story and run in order.
"""

from __future__ import annotations

import re

import pytest
from form_page import line, pick, type_amount
from playwright.sync_api import expect

from tests.chromium import PATIENCE

pytestmark = pytest.mark.timeout(600)

LAB = 150_000  # ms: JupyterLab, from Start to its first notebook, on a busy machine
NOTEBOOKS = ["01-oom-at-limit.ipynb", "02-shared-uuid.ipynb", "03-whole-card.ipynb"]
# Where the package is installed is no part of the picture.
SHORTEN_PATHS = r"""() => {
    const texts = document.createTreeWalker(document.querySelector(".jp-Notebook"), NodeFilter.SHOW_TEXT);
    while (texts.nextNode())
        texts.currentNode.data = texts.currentNode.data.replace(/\/\S*\/(?=hami_hub\/)/, "");
}"""


@pytest.fixture(scope="module")
def person(chromium, demo):
    """The page of an account, logged in and before its spawn form; later the same page again."""
    pages = {}

    def page_of(account: str, **options):
        if account not in pages:
            context = chromium.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
            page = pages[account] = context.new_page()
            page.set_default_timeout(PATIENCE)
            page.goto(f"{demo.url}/hub/login?next=/hub/spawn")
            page.get_by_label("Username").fill(account)
            page.get_by_label("Password").fill(demo.password)
            page.get_by_role("button", name="Sign in").click()
            page.get_by_role("group", name="Profile").wait_for()
        return pages[account]

    yield page_of
    for page in pages.values():
        page.context.close()


def card(page) -> str:
    return page.locator(".hami-cards").inner_text()


def start(page) -> None:
    page.get_by_role("button", name="Start", exact=True).click()


def in_lab(page, account: str) -> None:
    page.wait_for_url(re.compile(f"/user/{account}/lab"), timeout=LAB)


def test_alice_picks_4_gib_and_jupyterlab_opens_with_the_notebooks(person):
    page = person("alice", viewport={"width": 1480, "height": 920})
    assert card(page) == "Tesla T4, 15 GiB, all free"
    assert page.get_by_role("radio", name="CPU only").is_checked()
    pick(page, "4 GiB · 25 %")
    start(page)
    in_lab(page, "alice")
    for notebook in NOTEBOOKS:
        expect(page.get_by_role("listitem", name=re.compile(notebook))).to_be_visible(timeout=LAB)


def test_alices_notebook_meets_the_limit(person, picture):
    page = person("alice")
    page.get_by_role("listitem", name=re.compile(NOTEBOOKS[0])).dblclick()
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible(timeout=LAB)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    # The notebook comes with outputs of another slice: 4.00 GiB is said only by the run.
    outputs = page.locator(".jp-OutputArea-output")
    refusal = outputs.filter(has_text="total capacity of 4.00 GiB")
    expect(refusal).to_be_visible(timeout=LAB)
    expect(refusal).to_contain_text("OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB.")
    expect(outputs.filter(has_text="2GB allocated (2048 MiB)")).to_be_visible()
    views = outputs.filter(has_text="All say 4096 MiB.")
    expect(views).to_be_visible(timeout=LAB)
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible(timeout=LAB)
    page.evaluate(SHORTEN_PATHS)
    page.get_by_role("heading", name="What doesn't fit is refused").evaluate("e => e.scrollIntoView()")
    page.mouse.move(0, 0)
    picture(page, "lab-oom")


def test_bob_takes_4_gib_by_keyboard_on_a_narrow_dark_screen(person):
    page = person("bob", viewport={"width": 400, "height": 800}, color_scheme="dark", device_scale_factor=1.5)
    assert card(page) == "Tesla T4, 15 GiB, 11 GiB free"
    page.get_by_role("radio", name="CPU only").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    in_lab(page, "bob")


def test_carol_reads_on_the_form_what_would_wait(person, picture):
    page = person("carol", viewport={"width": 1000, "height": 900})
    assert card(page) == "Tesla T4, 15 GiB, 7 GiB free"
    expect(line(page, "2 GiB")).to_contain_text("Starts now")
    waits = line(page, "8 GiB · 50 %")
    expect(waits).to_contain_text("Waits")
    expect(waits).to_contain_text("the Tesla T4 has 7 GiB free, 8 GiB are asked for.")


def test_carol_is_told_at_once_what_no_card_can_give(person, picture):
    page = person("carol")
    type_amount(page, "100 GiB")
    start(page)
    expect(page.locator(".spawn-error-msg")).to_contain_text("100 GiB can never fit here")
    assert page.get_by_label("VRAM").input_value() == "100 GiB"
    expect(page.locator(".invalid-feedback")).to_contain_text("100 GiB can never fit here")
    page.set_viewport_size({"width": 1000, "height": 1460})
    picture(page, "form-refused", full_page=True)
    page.set_viewport_size({"width": 1000, "height": 900})


def test_carol_waits_and_reads_why(person):
    page = person("carol")
    pick(page, "8 GiB · 50 %")
    start(page)
    told = page.locator("#progress-message")
    expect(told).to_contain_text("You are 1st in line. 8 GiB · 50 % is not free now: the Tesla T4 has 7 GiB free")
    expect(page).to_have_title("(1) Waiting for a slice")


def test_carol_is_let_in_when_bob_stops(person, demo):
    bob, carol = person("bob"), person("carol")
    bob.goto(f"{demo.url}/hub/home")
    bob.wait_for_function("window._jupyterhub_page_loaded")  # the button does nothing before
    bob.get_by_role("button", name="Stop My Server").click()
    in_lab(carol, "carol")


def test_without_javascript_a_server_starts_too(person):
    page = person("admin", java_script_enabled=False)
    assert card(page) == "Tesla T4, 15 GiB, 3 GiB free"
    type_amount(page, "256 MiB")
    start(page)
    in_lab(page, "admin")
