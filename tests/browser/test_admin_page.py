"""The service's pages as people meet them: the admin's with cards, queue, quotas, use, history, and everybody's own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from conftest import end_group
from playwright.sync_api import expect

from hami_hub.cli.demo import ports

HERE = Path(__file__).parent
TABS = ["Cards", "Queue", "Quotas", "Usage", "History"]


class Service:
    """The service showing a scene."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/services/hami/"

    def ask(self, path: str, name: str = "ada", body: object = None, **headers: str) -> dict:
        """The API, past the page."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path,
            data=data,
            headers={"Authorization": f"token {name}", **headers},
            method="PUT" if data else "GET",
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)


@contextmanager
def serving(scene: str, folder: Path, more: int = 0) -> Iterator[Service]:
    (port,) = ports.any_free(1)
    log = folder / f"{scene}-{port}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "page_service.py"), scene, str(port), str(more)],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        service = Service(port)
        end = time.monotonic() + 90
        while True:
            try:
                service.ask("api/now")
                break
            except (urllib.error.URLError, OSError):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"The service didn't come up:\n{log.read_text()[-4000:]}") from None
                time.sleep(0.2)
        yield service
    finally:
        end_group(process)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable]:
    """`scene("lab")`: a service that shows it, shared by the tests that change nothing."""
    running: dict[tuple[str, int], Service] = {}
    with ExitStack() as ending:

        def shown(name: str, more: int = 0) -> Service:
            if (name, more) not in running:
                running[name, more] = ending.enter_context(serving(name, tmp_path_factory.mktemp("page"), more))
            return running[name, more]

        yield shown


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Service]:
    """A lab of one's own, to be changed."""
    with serving("lab", tmp_path) as service:
        yield service


@pytest.fixture
def visit(new_page) -> Callable:
    """`visit(service, "alice", "mine")`: a page, and every error that it met."""

    def come(service: Service, name: str = "ada", path: str = "", **options):
        page = new_page(extra_http_headers={"Authorization": f"token {name}"}, **options)
        page.errors = []
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("console", lambda said: page.errors.append(said.text) if said.type == "error" else None)
        page.goto(service.url + path)
        if not path.startswith("mine"):
            expect(page.locator("#state")).to_have_text("Live")
        return page

    return come


def tab(page, name: str) -> None:
    page.get_by_role("tab", name=name).click()
    expect(page.get_by_role("tabpanel", name=name)).to_be_visible()


def kept_back(page, url: str) -> Callable:
    """Answer nothing that the page asks for at `url`; gives what waits for the first of it."""
    held: list = []
    page.route(url, lambda route: held.append(route))

    def first():
        while not held:
            page.wait_for_timeout(20)
        return held[0]

    return first


def settled(page) -> None:
    page.wait_for_load_state("networkidle")


# --- cards -----------------------------------------------------------------------------------------------------------


def test_a_slice_says_whose_it_is_by_mouse_and_keyboard(scene, visit, picture):
    page = visit(scene("lab"))
    expect(page.locator("#sum")).to_contain_text("4 cards: 45 GiB of 67.4 GiB given to 6 servers")
    page.locator(".slice", has_text="bob").hover()
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("8 GiB · 50 %")
    expect(tip).to_contain_text("7.4 GiB in use")
    expect(tip).to_contain_text("paid by ml")
    tip.hover()  # it stays for who points at it
    page.wait_for_timeout(400)
    expect(tip).to_be_visible()
    picture(page, "admin-page", clip={"x": 0, "y": 0, "width": 1100, "height": 560})
    page.mouse.move(2, 2)
    page.locator(".slice", has_text="bob").focus()
    expect(tip).to_be_visible()
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.locator(".slice", has_text="carol").focus()
    expect(tip).to_contain_text("carol")
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("alice")
    page.keyboard.press("ArrowDown")
    expect(tip).to_contain_text("dora")
    assert page.locator('.slice[tabindex="0"]').count() == 1
    assert not page.errors


def test_a_slices_bar_is_as_wide_as_its_part_of_the_card(scene, visit):
    page = visit(scene("lab"))
    share = page.locator(".slice", has_text="bob").evaluate(
        "e => e.getBoundingClientRect().width / e.parentElement.clientWidth"
    )
    assert share == pytest.approx(8 / 15, abs=0.01)
    used = page.locator(".slice", has_text="bob").evaluate("e => parseFloat(e.lastChild.firstChild.style.width)")
    assert used == pytest.approx(93, abs=1)


def test_the_cards_as_a_table_sorted_and_searched(scene, visit):
    page = visit(scene("lab"))
    page.get_by_label("As a table").check()
    rows = page.locator("#cards-table tbody tr")
    expect(rows).to_have_count(6)
    page.get_by_role("button", name="VRAM").click()
    expect(rows.first).to_contain_text("dora")
    page.get_by_role("button", name="VRAM").click()
    expect(rows.first).to_contain_text("carol")
    page.get_by_label("Search").first.fill("ali")
    expect(rows).to_have_count(2)
    page.reload()
    expect(page.locator("#cards-table")).to_be_visible()


def test_search_finds_a_person_among_the_bars(scene, visit):
    page = visit(scene("lab"))
    page.get_by_label("Search").first.fill("emil")
    expect(page.locator(".card:visible")).to_have_count(1)
    expect(page.locator(".slice.pale")).not_to_have_count(0)


def test_only_what_changed_is_drawn_anew(scene, visit):
    page = visit(scene("lab", 300))
    page.evaluate(
        """() => {
          window.added = 0;
          const watch = new MutationObserver((all) => all.forEach((each) => (added += each.addedNodes.length)));
          watch.observe(document.querySelector("#cards-bars"), { childList: true, subtree: true });
        }"""
    )
    used = page.locator(".slice", has_text="bob").locator(".slice-use span")
    for _ in range(2):
        before = used.get_attribute("style")
        expect(used).not_to_have_attribute("style", before)
    assert page.evaluate("added") == 0
    assert not page.errors


def test_a_service_that_stops_is_said_and_what_was_known_stays(tmp_path, visit):
    with serving("lab", tmp_path) as service:
        page = visit(service)
    expect(page.locator("#state")).to_contain_text("doesn't hear from the service")
    expect(page.locator(".slice")).to_have_count(6)


def test_an_older_answer_that_comes_late_is_not_shown_over_a_newer_one(lab, visit):
    page = visit(lab)
    tab(page, "Quotas")
    page.evaluate("AbortSignal.timeout = () => new AbortController().signal")  # however slow it is here
    looks: list = []
    page.route("**/api/now?**", lambda route: looks.append(route))

    def look():
        before = len(looks)
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        while len(looks) == before:
            page.wait_for_timeout(20)
        return looks[-1]

    def change(vram: str) -> None:
        lab.ask("api/quotas/ml", "bea", {"hami.vram": vram}, **{"If-Match": "*"})

    early = look()
    change("40GiB")
    older = early.fetch()
    change("48GiB")
    look().continue_()
    row = page.locator("#quotas-table tr", has_text="ml").first
    expect(row).to_contain_text("of 48 GiB")
    with page.expect_response("**/api/now?**") as late:
        early.fulfill(response=older)
    late.value.finished()
    page.wait_for_timeout(300)
    assert "of 48\xa0GiB" in row.inner_text()


# --- queue, use, history ---------------------------------------------------------------------------------------------


def test_the_queue_is_in_order_with_the_reason(scene, visit, picture):
    page = visit(scene("lab"))
    expect(page.get_by_role("tab", name="Queue")).to_contain_text("2 wait")
    tab(page, "Queue")
    rows = page.locator("#queue-table tbody tr")
    assert [text.split()[0] for text in rows.all_inner_texts()] == ["1", "2"]
    expect(rows.first).to_contain_text("fritz")
    expect(rows.first).to_contain_text("The Tesla T4 has 1 GiB free, 8 GiB are asked for.")


def test_use_by_user_and_group_and_as_a_file(scene, visit, picture):
    page = visit(scene("lab"))
    tab(page, "Usage")
    expect(page.locator("#usage-table tbody tr").first).to_contain_text("dora")
    expect(page.locator("#usage-sum")).to_contain_text("GiB-hours in all")
    picture(page, "admin-page-usage", clip={"x": 0, "y": 0, "width": 1100, "height": 640})
    page.get_by_role("radio", name="By group").check()
    expect(page.locator("#usage-table tbody tr")).to_have_count(3)
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    table = Path(download.value.path()).read_text().splitlines()
    assert table[0].startswith("group,gib_hours")
    assert {line.split(",")[0] for line in table[1:]} == {"ml", "bio", ""}


def test_who_was_refused_what_and_why(scene, visit):
    page = visit(scene("lab"))
    tab(page, "History")
    page.get_by_label("What became of it").select_option("refused or failed")
    rows = page.locator("#starts-table tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("hugo")
    expect(rows.first).to_contain_text("0 MiB is left of what the group ml has")
    page.get_by_label("Reason").select_option("hami-server-ended")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("ines")
    page.get_by_label("Search").last.fill("nothing like it")
    expect(rows.first).to_contain_text("Nothing like that happened")


def test_parts_by_keyboard_and_in_the_address(scene, visit):
    page = visit(scene("lab"), path="#quotas")
    expect(page.get_by_role("tabpanel", name="Quotas")).to_be_visible()
    page.get_by_role("tab", name="Quotas").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Usage")).to_be_focused()
    expect(page).to_have_url(re.compile("#usage$"))
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("tabpanel", name="Queue")).to_be_visible()
    assert "Queue" in page.title()


# --- quotas ----------------------------------------------------------------------------------------------------------


def edit(page, group: str) -> None:
    tab(page, "Quotas")
    page.get_by_role("button", name=f"Edit the quota of {group}").click()
    expect(page.get_by_role("heading", name=f"Quota of {group}")).to_be_focused()


def field(page, label: str):
    return page.locator("#editor").get_by_label(label, exact=True)


def test_a_fault_stands_beside_its_field_with_what_would_be_right(lab, visit):
    page = visit(lab)
    edit(page, "ml")
    field(page, "VRAM").fill("24GB")
    expect(field(page, "VRAM")).to_have_attribute("aria-invalid", "true")
    expect(field(page, "VRAM")).to_have_accessible_description(
        'hami.vram of all servers of the group together hami.vram: "24GB" uses a decimal unit, VRAM is counted in MiB '
        "and GiB. Write it like 4 GiB or 4096 MiB."
    )
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    field(page, "VRAM").fill("20GiB")
    expect(page.get_by_role("button", name="Save")).to_be_enabled()
    assert lab.ask("api/quotas/ml")["properties"]["hami.vram"] == "24GiB"


def test_what_it_would_have_refused_is_said_before_it_is_saved(lab, visit, picture):
    page = visit(lab)
    edit(page, "ml")
    field(page, "VRAM").fill("6GiB")
    expect(page.locator("#trial")).to_contain_text("In the last 30 days this would have refused")
    expect(page.locator("#trial")).to_contain_text("people")
    expect(page.locator("#trial")).to_contain_text("More is in use now than that: 24 GiB of VRAM in use")
    box = page.locator("#editor").bounding_box()
    picture(page, "admin-page-quota", full_page=True, clip={**box, "y": box["y"] + page.evaluate("scrollY")})
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#saved")).to_contain_text("The quota of ml is saved.")
    expect(page.get_by_role("button", name="Edit the quota of ml")).to_be_focused()
    expect(page.locator("#quotas-table tr", has_text="ml").first).to_contain_text("24 GiB of 6 GiB, over")
    assert lab.ask("api/quotas/ml")["properties"]["hami.vram"] == "6GiB"


def test_a_quota_by_keyboard_alone(lab, visit):
    page = visit(lab)
    tab(page, "Quotas")
    page.get_by_role("button", name="Edit the quota of bio").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Quota of bio")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Control+a")
    page.keyboard.type("64GiB")
    page.keyboard.press("Enter")
    expect(page.locator("#saved")).to_contain_text("The quota of bio is saved.")
    assert lab.ask("api/quotas/bio")["properties"]["hami.vram"] == "64GiB"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Quota of bio")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(page.locator("#editor")).to_be_hidden()
    expect(page.get_by_role("button", name="Edit the quota of bio")).to_be_focused()


def test_what_is_typed_can_be_saved_before_it_is_tried_out(lab, visit):
    page = visit(lab)
    edit(page, "bio")
    field(page, "VRAM").fill("64")
    expect(field(page, "VRAM")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("button", name="Save")).to_be_disabled()
    kept_back(page, "**/api/dry-run?**")
    field(page, "VRAM").press_sequentially("GiB")
    page.keyboard.press("Enter")
    expect(page.locator("#saved")).to_contain_text("The quota of bio is saved.")
    assert lab.ask("api/quotas/bio")["properties"]["hami.vram"] == "64GiB"


@pytest.mark.parametrize(("choice", "vram"), [("Take theirs", "32GiB"), ("Keep mine, to be saved over it", "40GiB")])
def test_two_admins_at_once(lab, visit, choice, vram):
    page = visit(lab)
    edit(page, "ml")
    field(page, "VRAM").fill("40GiB")
    expect(page.locator("#trial")).to_contain_text("In the last 30 days")
    lab.ask("api/quotas/ml", "bea", {"hami.vram": "32GiB"}, **{"If-Match": "*"})
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody has changed this group meanwhile")
    expect(page.get_by_role("alert")).to_contain_text("hami.vram is 32GiB now")
    assert lab.ask("api/quotas/ml")["properties"]["hami.vram"] == "32GiB"
    page.get_by_role("button", name=choice).click()
    expect(field(page, "VRAM")).to_have_value(vram)
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#saved")).to_contain_text("is saved")
    assert lab.ask("api/quotas/ml")["properties"]["hami.vram"] == vram


def test_an_exception_for_one_person(lab, visit):
    page = visit(lab)
    edit(page, "ml")
    page.get_by_label("User", exact=True).fill("jo.ann")
    page.get_by_role("button", name="Add an exception").click()
    field(page, "VRAM for jo.ann").fill("2GiB")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#saved")).to_contain_text("is saved")
    properties = lab.ask("api/quotas/ml")["properties"]
    assert properties["hami.user.jo.ann.vram"] == "2GiB"
    assert "hami.user.jo.ann.cores" not in properties


def test_what_is_not_understood_can_be_taken_away(lab, visit):
    page = visit(lab)
    tab(page, "Quotas")
    expect(page.locator("#quotas-table tr", has_text="physics")).to_contain_text("written wrongly: pays for nothing")
    edit(page, "physics")
    expect(page.locator("#editor")).to_contain_text("hami.vrma is no key of a quota. Did you mean hami.vram?")
    page.get_by_role("button", name="Remove hami.vrma").click()
    field(page, "VRAM").fill("24GiB")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#saved")).to_contain_text("The quota of physics is saved.")
    assert lab.ask("api/quotas/physics")["properties"] == {"hami.vram": "24GiB"}


def test_a_field_that_is_added_after_another_was_taken_away_is_its_own(lab, visit):
    page = visit(lab)
    edit(page, "physics")
    for user in ("ann", "bob"):
        page.get_by_label("User", exact=True).fill(user)
        page.get_by_role("button", name="Add an exception").click()
        if user == "ann":
            page.get_by_role("button", name="Remove hami.vrma").click()
    field(page, "VRAM for bob").fill("2GiB")
    field(page, "VRAM").fill("24GiB")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#saved")).to_contain_text("The quota of physics is saved.")
    assert lab.ask("api/quotas/physics")["properties"]["hami.user.bob.vram"] == "2GiB"


def test_who_leaves_the_editor_while_it_saves_finds_the_page_as_it_was(lab, visit):
    page = visit(lab)
    edit(page, "bio")
    field(page, "VRAM").fill("64GiB")
    expect(page.locator("#trial")).to_contain_text("In the last 30 days")
    held = kept_back(page, "**/api/quotas/bio")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Cancel").click()
    edit(page, "ml")
    with page.expect_response("**/api/quotas/bio"):
        held().continue_()
    expect(page.locator("#saved")).to_contain_text("The quota of bio is saved.")
    expect(page.get_by_role("heading", name="Quota of ml")).to_be_visible()
    assert not page.errors


def test_of_two_quotas_asked_for_the_later_is_shown(lab, visit):
    page = visit(lab)
    tab(page, "Quotas")
    held = kept_back(page, "**/api/quotas/ml")
    page.get_by_role("button", name="Edit the quota of ml").click()
    edit(page, "bio")
    with page.expect_response("**/api/quotas/ml") as late:
        held().continue_()
    late.value.finished()
    page.wait_for_timeout(300)
    expect(page.get_by_role("heading", name="Quota of bio")).to_be_focused()
    assert not page.errors


@pytest.mark.parametrize("then", ["a quota that can't be changed", "a group that isn't there"])
def test_what_was_still_being_tried_out_is_not_said_of_the_next(lab, visit, then):
    page = visit(lab)
    tab(page, "Quotas")
    held = kept_back(page, "**/api/dry-run?**")
    edit(page, "ml")
    held()
    if then == "a group that isn't there":
        page.get_by_label("Give another group a quota").fill("nobody")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("There is no group")
    else:
        page.get_by_role("button", name="Show the quota of default quota").click()
        expect(page.get_by_role("heading", name="Quota of default quota")).to_be_focused()
    shown = page.locator("#editor").inner_text()
    with page.expect_response("**/api/dry-run?**") as late:
        held().continue_()
    late.value.finished()
    page.wait_for_timeout(300)
    assert page.locator("#editor").inner_text() == shown
    assert [error for error in page.errors if "Failed to load resource" not in error] == []


def test_a_group_without_a_quota_gets_one(lab, visit):
    page = visit(lab)
    tab(page, "Quotas")
    page.get_by_label("Give another group a quota").fill("nobody")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("There is no group")
    page.get_by_label("Give another group a quota").fill("staff")
    page.keyboard.press("Enter")
    field(page, "GPU servers").fill("3")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#quotas-table")).to_contain_text("staff")


def test_who_only_sees_can_change_nothing(scene, visit):
    page = visit(scene("lab"), "vera")
    tab(page, "Quotas")
    expect(page.get_by_label("Give another group a quota")).to_have_count(0)
    page.get_by_role("button", name="Show the quota of ml").click()
    expect(field(page, "VRAM")).to_be_disabled()
    expect(page.get_by_role("button", name="Save")).to_have_count(0)


# --- everybody's page ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("javascript", [True, False])
def test_everybody_reads_about_themselves_also_without_scripts(scene, visit, picture, javascript):
    page = visit(scene("lab"), "alice", "mine", java_script_enabled=javascript)
    expect(page.locator(".budget")).to_contain_text("24 GiB of 24 GiB in use, 16 GiB by you")
    expect(page.locator("table").first).to_contain_text("train")
    expect(page.locator("main")).to_contain_text("In the last 30 days you had")
    assert "bob" not in page.locator("main").inner_text()
    if javascript:
        settled(page)
        picture(page, "my-slices", clip={"x": 0, "y": 0, "width": 1100, "height": 780})
        assert not page.errors


def test_what_changes_before_the_page_looks_first_is_shown(scene, visit):
    page = visit(scene("lab"), "alice", "mine")

    def changed(route):
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("24 GiB of 24 GiB", "20 GiB of 24 GiB"))

    page.route("**/mine?part=1", changed)
    page.reload()
    expect(page.locator(".budget")).to_contain_text("20 GiB of 24 GiB in use, 16 GiB by you")


def test_who_stands_somewhere_stays_there_while_nothing_changes(scene, visit):
    page = visit(scene("lab"), "nobody", "mine")
    held = kept_back(page, "**/mine?part=1")
    page.reload()
    held()
    link = page.get_by_role("link", name="Start one")
    link.focus()
    with page.expect_request("**/mine?part=1"):  # the next, when the first is shown
        held().continue_()
    expect(link).to_be_focused()


@pytest.mark.parametrize(("language", "lang"), [("ja", "ja"), ("zh-CN", "zh-Hans")])
def test_everybodys_page_speaks_their_language(scene, visit, language, lang):
    page = visit(scene("lab"), "alice", "mine", locale=language)
    assert page.locator("html").get_attribute("lang") == lang
    shown = page.locator("main").inner_text()
    assert "What you may use" not in shown
    assert "in use" not in shown


# --- names that are scripts, and every state by axe's rules ----------------------------------------------------------


def test_no_name_can_become_a_script(scene, visit):
    page = visit(scene("hostile"))
    assert page.locator("main img").count() == 0
    page.locator(".slice").first.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("<img src=x")
    page.get_by_label("As a table").check()
    for name in TABS[1:]:
        tab(page, name)
        settled(page)
        expect(page.get_by_role("tabpanel", name=name)).to_contain_text("<img src=x")
        assert page.locator("main img").count() == 0
    tab(page, "Quotas")
    page.locator("#quotas-table button", has_text="Edit").first.click()
    expect(page.locator("#editor")).to_contain_text("is no key of a quota")
    page.get_by_role("button", name="Edit the quota of __proto__").click()
    expect(field(page, "VRAM")).to_have_value("8GiB")
    page.get_by_role("button", name="Edit the quota of a/b c?d#e%f").click()
    expect(page.get_by_role("heading", name="Quota of a/b c?d#e%f")).to_be_visible()
    assert "hit" not in page.title()
    assert not page.errors
    own = visit(scene("hostile"), "mallory", "mine")
    expect(own.locator("main")).to_contain_text("<img src=x")
    settled(own)
    assert own.locator("main img").count() == 0
    assert "hit" not in own.title()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 360])
def test_no_rule_is_broken_on_the_admins_page(scene, visit, violations, scheme, width):
    page = visit(scene("lab"), color_scheme=scheme, viewport={"width": width, "height": 800})
    page.locator(".slice").first.focus()
    assert violations(page) == []
    page.get_by_label("As a table").check()
    assert violations(page) == []
    for name in TABS[1:]:
        tab(page, name)
        settled(page)
        assert violations(page) == []
    edit(page, "physics")
    expect(page.locator("#editor .fault").first).not_to_be_empty()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", ["blind", "empty", "hostile"])
def test_no_rule_is_broken_where_little_is_known(scene, visit, violations, name):
    page = visit(scene(name))
    for each in TABS:
        tab(page, each)
        settled(page)
        assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["alice", "nobody", "jan"])
def test_no_rule_is_broken_on_everybodys_page(scene, visit, violations, scheme, name):
    page = visit(scene("lab"), name, "mine", color_scheme=scheme, viewport={"width": 360, "height": 800})
    settled(page)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_what_is_not_known_is_said_at_the_top(scene, visit):
    page = visit(scene("blind"))
    notes = page.locator("#notes")
    expect(notes).to_contain_text("There is no journal at")
    expect(notes).to_contain_text("The hub doesn't answer.")
    expect(notes).to_contain_text("NVML refuses this user.")
    tab(page, "Usage")
    expect(page.locator("#usage-table")).to_contain_text("There is no journal at")
    expect(page.locator("#cards-none")).to_have_text("No card is known.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("chosen", ["", "light", "dark"])
def test_the_hubs_choice_of_light_or_dark_is_this_pages_too(scene, visit, scheme, chosen):
    page = visit(scene("lab"), color_scheme=scheme)
    page.evaluate("chosen => localStorage.setItem('jupyterhub-bs-theme', chosen)", chosen)
    page.reload()
    looks = page.evaluate(
        """() => {
          const { backgroundColor, color } = getComputedStyle(document.body);
          return [getComputedStyle(document.documentElement).colorScheme, backgroundColor, color];
        }"""
    )
    light, dark = ["light", "rgb(255, 255, 255)", "rgb(33, 37, 41)"], ["dark", "rgb(33, 37, 41)", "rgb(222, 226, 230)"]
    assert looks == (dark if (chosen or scheme) == "dark" else light)


# --- many ------------------------------------------------------------------------------------------------------------


def test_a_thousand_servers_on_two_hundred_cards_are_all_there(scene, visit):
    page = visit(scene("campus"))
    expect(page.locator("#sum")).to_contain_text("200 cards: 14,000 GiB of 28,080.2 GiB given to 1,000 servers")
    assert page.locator(".slice").count() == 1000
    page.get_by_label("As a table").check()
    expect(page.locator("#cards-table tbody tr")).to_have_count(50)
    expect(page.locator("#cards-table")).to_contain_text("1 to 50 of 1,000 slices")
    page.get_by_label("Search").first.fill("user00777")
    expect(page.locator("#cards-table tbody tr")).to_have_count(1)


def test_ten_thousand_users_page_by_page(scene, visit):
    page = visit(scene("campus"))
    tab(page, "Usage")
    expect(page.locator("#usage-table")).to_contain_text("1 to 50 of 10,000 lines")
    page.locator("#usage-table").get_by_role("button", name="Next").click()
    expect(page.locator("#usage-table")).to_contain_text("51 to 100 of 10,000 lines")
    page.locator("#usage-search").fill("user09999")
    expect(page.locator("#usage-table tbody tr")).to_have_count(1)
