"""The form and the waiting page of a real hub: the last choice over a restart, links, a wait and its words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_process import Hub
from person import Person

import hami_hub
from tests.unit.test_form import Page

TEMPLATES = str(Path(hami_hub.__file__).parent / "templates")


@pytest.fixture(scope="module")
def whole_hub() -> Iterator[Hub]:
    with Hub(spawner="hami-simple", JupyterHub={"template_paths": [TEMPLATES]}) as hub:
        yield hub


@pytest.fixture
def hub(whole_hub: Hub) -> Iterator[Hub]:
    yield whole_hub
    whole_hub.stop_all()


def amount(page: Page, profile: str) -> str | None:
    [field] = page.all("input", name=f"profile-option-{profile}--vram")
    return field["value"]


def test_the_last_choice_is_picked_again_after_a_restart_of_the_hub(hub: Hub) -> None:
    assert Page(Person(hub, "bob").open("/hub/spawn")).checked == ["cpu"]
    hub.start("bob", {"profile": "other", "vram": "3 GiB"})
    hub.stop("bob")
    hub.kill()
    hub.begin()
    page = Page(Person(hub, "bob").open("/hub/spawn"))
    assert page.checked == ["other"]
    assert amount(page, "other") == "3 GiB"


def test_a_choice_that_is_not_offered_any_more_is_said(hub: Hub) -> None:
    hub.start("rita", {"profile": "research"})
    hub.stop("rita")
    hub.api.request("DELETE", "/groups/research/users", json={"users": ["rita"]})
    shown = Person(hub, "rita").open("/hub/spawn")
    hub.api.post("/groups/research/users", json={"users": ["rita"]})
    page = Page(shown)
    assert page.checked == ["cpu"]
    assert "Your last choice, Research, can't be had now." in page.text


@pytest.mark.parametrize("query", ["opt-profile=small&opt-preselect=1", "_xsrf=x", "utm_source=mail"])
def test_a_link_that_only_picks_starts_nothing_and_leaves_no_traceback(hub: Hub, query: str) -> None:
    before = len(hub.log.read_text())
    page = Page(Person(hub, "carol").open(f"/hub/spawn?{query}"))
    assert page.checked == ["small" if "small" in query else "cpu"]
    assert not page.all("p", **{"class": "spawn-error-msg alert alert-danger"})
    assert hub.servers("carol") == {}
    assert "Traceback" not in hub.log.read_text()[before:]
    assert Page(Person(hub, "carol").open("/hub/spawn")).checked == ["cpu"]


def test_a_wait_is_told_with_its_facts_and_shown_without_javascript(hub: Hub) -> None:
    hub.start("alice", {"profile": "whole"})
    hub.ask("bob", {"profile": "half"})
    event = next(event for event in hub.progress("bob") if "in line" in event["message"])
    assert event["hami"] == {"state": "waiting", "position": 1, "frees_at": None}
    page = Page(Person(hub, "bob").open("/hub/spawn-pending/bob"))
    assert "Waiting for a slice" in page.text
    assert "You are 1st in line." in page.text
    assert page.all("meta", **{"http-equiv": "refresh"})


def in_line(hub: Hub, name: str, server: str = "") -> Person:
    """Somebody who waits in line behind alice, and looks at the page."""
    hub.start("alice", {"profile": "whole"})
    person = Person(hub, name)
    person.open("/hub/spawn")
    person.send(f"/hub/spawn/{name}/{server}" if server else "/hub/spawn", {"profile": "half"})
    next(event for event in hub.progress(name, server) if "in line" in event["message"])
    return person


def test_a_person_who_cancels_leaves_the_line_and_may_choose_again(hub: Hub) -> None:
    bob = in_line(hub, "bob")
    # As the page's script does it.
    answer = bob.browser.delete("/hub/api/users/bob/server", params={"_xsrf": bob.xsrf})
    assert answer.status_code in (202, 204)
    hub.until_stopped("bob")
    assert Page(bob.open("/hub/spawn")).checked == ["half"]
    hub.until_held("alice")


@pytest.mark.parametrize("server", ["", "second"])
def test_without_javascript_a_form_cancels(hub: Hub, server: str) -> None:
    bob = in_line(hub, "bob", server)
    page = Page(bob.open(f"/hub/spawn-pending/bob/{server}" if server else "/hub/spawn-pending/bob"))
    [form], [token] = page.all("form", method="post"), page.all("input", name="_xsrf")
    answer = bob.browser.post(form["action"], data={"_xsrf": token["value"]}, headers={"Sec-Fetch-Mode": "navigate"})
    assert Page(answer.text).checked == ["half"]
    hub.until_stopped("bob", server)
    hub.until_held("alice")


def test_nobody_cancels_for_somebody_else_nor_by_a_strangers_form(hub: Hub) -> None:
    bob, carol = in_line(hub, "bob"), Person(hub, "carol")
    place = "/hub/cancel-start/bob"
    Page(bob.open("/hub/spawn-pending/bob"))
    for person, token in ((bob, ""), (bob, carol.xsrf), (carol, carol.xsrf)):
        headers = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"}
        assert person.browser.post(place, data={"_xsrf": token}, headers=headers).status_code in (403, 404)
    assert hub.servers("bob")[""]["pending"] == "spawn"


def test_what_runs_by_now_is_not_stopped_by_a_page_that_is_old(hub: Hub) -> None:
    bob = in_line(hub, "bob")
    [form] = Page(bob.open("/hub/spawn-pending/bob")).all("form", method="post")
    hub.stop("alice")
    hub.until_started("bob")
    bob.send(form["action"], {})
    assert hub.servers("bob")[""]["ready"]


def test_another_spawners_server_gets_the_hubs_own_page() -> None:
    with Hub(spawner="simple", simulated=False, JupyterHub={"template_paths": [TEMPLATES]}) as hub:
        slow = Person(hub, "slow")
        hub.api.post("/users/slow/server")
        shown = slow.open("/hub/spawn-pending/slow")
        assert "hami-waiting" not in shown
        assert "Your server is starting up." in shown
