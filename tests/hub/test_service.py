"""The service of a real hub: who sees what, quotas that are written through it, and what it does without the hub."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hub_process import Hub
from page_visitor import PAGE, Visitor, until_page

from tests.hub_client import PATIENCE


@pytest.fixture(scope="module")
def page_hub() -> Iterator[Hub]:
    """A hub with the page: ada is admin, vera sees everything, alice and bob are in research."""
    hub = Hub(
        spawner="hami-simple",
        Authenticator={"admin_users": ["ada", "bea"]},
        JupyterHub={"load_groups": {"research": {"users": ["alice", "bob", "rita"]}}},
    )
    hub.settings["page"] = {"viewers": ["vera"]}
    with hub:
        until_page(hub.url)
        yield hub


@pytest.fixture
def hub(page_hub: Hub) -> Iterator[Hub]:
    """Nobody has a server, no group a quota."""
    page_hub.api.put("/groups/research/properties", json={})
    before = len(page_hub.log.read_bytes())
    yield page_hub
    page_hub.stop_all()
    page_hub.until_held()
    assert b"Traceback" not in page_hub.log.read_bytes()[before:]


@pytest.fixture
def visit(hub: Hub) -> Iterator[Any]:
    """`visit("ada")`: somebody at the page."""
    visitors: dict[str, Visitor] = {}

    def come(name: str) -> Visitor:
        if name not in visitors:
            visitors[name] = Visitor(hub.url, name)
        return visitors[name]

    yield come
    for visitor in visitors.values():
        visitor.client.close()


def until(condition: Any) -> Any:
    """The first true answer."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"Still {found}")
        time.sleep(0.2)
    return found


def test_of_a_hub_that_has_started_nothing_yet_nothing_is_amiss(visit):
    assert visit("ada").sections()["notes"] == {}
    assert "can't be shown" not in visit("alice").get("mine").text


def test_an_admin_sees_everybodys_slices_and_what_is_in_use(hub, visit):
    hub.start("alice", {"profile": "small"})
    hub.start("bob", {"profile": "half"}, "lab")
    wanted = {("alice", "", 4096, 25, "small"), ("bob", "lab", 8192, 50, "half")}

    def seen() -> bool:
        sections = visit("ada").sections()
        rows, said = sections["slices"], ("user", "server", "vram", "cores", "profile")
        shown = {tuple(row[each] for each in said) for row in rows.values()}
        return shown == wanted and len(rows) == 2 and set(sections["used"]) == set(rows)

    until(seen)


def test_only_what_changed_is_sent(hub, visit):
    first = visit("ada").get("api/now").json()
    hub.start("alice", {"profile": "small"})
    said = until(
        lambda: (said := visit("ada").get("api/now", since=first["revision"]).json())["sections"]["slices"] and said
    )
    assert said["base"] == first["revision"]
    assert said["sections"]["cards"] == {}
    again = visit("ada").client.get(
        f"{PAGE}api/now", headers={"If-None-Match": f'"{said["revision"]}"', "X-XSRFToken": visit("ada").xsrf}
    )
    assert again.status_code in (200, 304)  # 200 where something has changed meanwhile


@pytest.mark.parametrize(
    ("name", "path", "status"),
    [
        ("ada", "api/now", 200),
        ("vera", "api/now", 200),
        ("alice", "api/now", 403),
        ("vera", "api/quotas/research", 200),
        ("alice", "api/quotas/research", 403),
        ("alice", "api/quotas", 403),
        ("vera", "api/usage", 200),
        ("alice", "api/usage", 403),
        ("alice", "api/usage.csv", 403),
        ("alice", "api/starts", 403),
        ("alice", "api/refusals", 403),
        ("alice", "api/dry-run?group=research", 403),
        ("alice", "api/me", 200),
        ("ada", "api/quotas/nobody", 404),
        ("ada", "api/quotas/", 200),
        ("ada", "api/nothing", 404),
        ("ada", "nothing", 404),
        ("ada", "api/usage?by=card", 400),
        ("ada", "api/usage?from=yesterday", 400),
        ("ada", "api/usage?from=5&to=3", 400),
        ("ada", "api/starts?offset=-1", 400),
        ("ada", "api/starts?limit=99999999", 400),
        ("ada", "api/now?since=<script>", 200),
    ],
)
def test_who_may_ask_what(visit, name, path, status):
    answer = visit(name).get(path)
    assert answer.status_code == status, answer.text
    if status >= 400 and path.startswith("api"):
        assert answer.json()["message"].endswith(".")


@pytest.mark.parametrize("path", ["api/now", "api/me", "api/quotas/research"])
def test_a_stranger_is_told_to_log_in(hub, path):
    assert httpx.get(f"{hub.url}{PAGE}{path}", timeout=PATIENCE).status_code == 401


def test_a_strangers_page_is_the_login(hub):
    answer = httpx.get(f"{hub.url}{PAGE}", follow_redirects=True, timeout=PATIENCE)
    assert answer.url.path == "/hub/login"


def test_somebody_who_is_no_admin_comes_to_their_own_page(hub, visit):
    hub.start("alice", {"profile": "small"})
    until(lambda: visit("alice").get("api/me").json()["servers"])
    page = visit("alice").client.get(PAGE)
    assert page.url.path == f"{PAGE}mine"
    assert "4 GiB · 25 %" in page.text
    assert "admin.js" not in page.text


def test_a_page_is_guarded_against_foreign_scripts(visit):
    for page in (visit("ada").client.get(PAGE), visit("alice").client.get(f"{PAGE}mine")):
        policy = page.headers["Content-Security-Policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert "<script>" not in page.text
        assert "onclick" not in page.text
        assert "style=" not in page.text


def test_a_page_speaks_the_readers_language(visit):
    page = visit("alice").client.get(f"{PAGE}mine", headers={"Accept-Language": "ja"})
    assert '<html lang="ja"' in page.text


# --- quotas ----------------------------------------------------------------------------------------------------------


def written(hub: Hub) -> Any:
    return hub.api.get("/groups/research").json()["properties"]


def test_a_quota_that_is_saved_holds_at_once(hub, visit):
    hub.api.put("/groups/research/properties", json={"owner": "mona"})
    seen = visit("ada").get("api/quotas/research").headers["ETag"]
    answer = visit("ada").put("api/quotas/research", {"hami.vram": "6GiB"}, **{"If-Match": seen})
    assert answer.status_code == 200, answer.text
    assert written(hub) == {"owner": "mona", "hami.vram": "6GiB"}
    hub.start("alice", {"profile": "small"})
    with pytest.raises(Exception, match="6 GiB"):
        hub.start("bob", {"profile": "small"})
    group = until(lambda: (of := visit("ada").sections()["groups"]["research"])["used"]["servers"] and of)
    assert (group["used"]["vram"], group["limit"]["vram"], group["members"]) == (4096, 6144, 3)
    (refusal,) = until(lambda: visit("ada").get("api/refusals", q="bob").json()["rows"])
    assert refusal["state"] == "refused"
    assert "6 GiB" in refusal["words"]


def test_two_admins_at_once_the_slower_is_told(hub, visit):
    seen = visit("ada").get("api/quotas/research").headers["ETag"]
    assert visit("ada").put("api/quotas/research", {"hami.vram": "6GiB"}, **{"If-Match": seen}).status_code == 200
    slower = visit("bea").put("api/quotas/research", {"hami.vram": "9GiB"}, **{"If-Match": seen})
    assert slower.status_code == 409
    assert "hami.vram is 6GiB now" in slower.json()["message"]
    assert slower.json()["properties"] == {"hami.vram": "6GiB"}
    assert written(hub) == {"hami.vram": "6GiB"}


def test_the_stock_admin_page_counts_as_another_admin(hub, visit):
    seen = visit("ada").get("api/quotas/research").headers["ETag"]
    hub.api.put("/groups/research/properties", json={"hami.vram": "2GiB"})
    assert visit("ada").put("api/quotas/research", {}, **{"If-Match": seen}).status_code == 409


@pytest.mark.parametrize(
    ("name", "body", "headers", "status"),
    [
        pytest.param("vera", {"hami.vram": "6GiB"}, {"If-Match": "*"}, 403, id="who only sees"),
        pytest.param("alice", {"hami.vram": "6GiB"}, {"If-Match": "*"}, 403, id="a member"),
        pytest.param("ada", {"hami.vram": "6GiB"}, {}, 428, id="without a version"),
        pytest.param("ada", {"hami.vram": "6GB"}, {"If-Match": "*"}, 422, id="written wrongly"),
        pytest.param("ada", {"owner": "me"}, {"If-Match": "*"}, 400, id="foreign key"),
        pytest.param("ada", ["hami.vram"], {"If-Match": "*"}, 400, id="a list"),
    ],
)
def test_what_is_not_saved(hub, visit, name, body, headers, status):
    answer = visit(name).put("api/quotas/research", body, **headers)
    assert answer.status_code == status, answer.text
    assert written(hub) == {}


def test_without_the_pages_token_nothing_is_written(hub, visit):
    """As a foreign site would: with the cookies, without the token."""
    ada = visit("ada")
    answer = ada.client.put(f"{PAGE}api/quotas/research", json={"hami.vram": "6GiB"}, headers={"If-Match": "*"})
    assert answer.status_code in (401, 403)
    assert written(hub) == {}


def test_a_token_is_as_good_as_a_login_and_no_better(hub, visit):
    token = visit("ada").token("groups!group=research", "access:services!service=hami")
    mine = {"Authorization": f"token {token}", "If-Match": "*"}
    with httpx.Client(base_url=f"{hub.url}{PAGE}api", headers=mine, timeout=PATIENCE) as api:
        assert api.get("/now").status_code == 403
        answer = api.put("/quotas/research", json={"hami.vram": "6GiB"})
        assert answer.status_code == 200, answer.text
        assert api.put("/quotas/other", json={}).status_code == 403
    assert written(hub) == {"hami.vram": "6GiB"}


def test_use_is_there_as_a_table_for_spreadsheets(hub, visit):
    hub.start("alice", {"profile": "small"})
    hub.stop("alice")
    table = visit("ada").get("api/usage.csv", by="group")
    assert table.headers["Content-Type"].startswith("text/csv")
    assert table.text.splitlines()[0] == "group,gib_hours,card_hours,server_hours,starts,refused"


# --- without the hub -------------------------------------------------------------------------------------------------


@pytest.mark.timeout(600)  # groups are known for half a minute, and two hubs come up
def test_without_the_hub_the_page_says_so_and_a_new_hub_brings_a_new_one():
    hub = Hub(spawner="hami-simple", Authenticator={"admin_users": ["ada"]})
    hub.settings["page"] = {}
    with hub:
        until_page(hub.url)
        hub.start("alice", {"profile": "small"})
        ada = Visitor(hub.url, "ada")
        until(lambda: ada.sections()["slices"])
        before = _service_of(hub)
        hub.kill()
        try:
            notes = until(lambda: ada.sections()["notes"])
            assert "The hub doesn't answer." in notes["0"]["text"]
            assert [row["user"] for row in ada.sections()["slices"].values()] == ["alice"]
            assert ada.put("api/quotas/research", {}, **{"If-Match": "*"}).status_code in (403, 503)
            unknown = {"Authorization": "token unknown"}
            stranger = httpx.get(f"{hub.url}{PAGE}api/now", headers=unknown, timeout=PATIENCE)
            assert stranger.status_code == 503
            assert "nobody can be known" in stranger.json()["message"]
        finally:
            hub.begin()
        until(lambda: not Path(f"/proc/{before}").exists())
        until_page(hub.url)


def _service_of(hub: Hub) -> int:
    """The service's PID, by whose child it is."""
    parent = (hub.folder / "hub.pid").read_text().strip()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if fields[1] == parent and b"hami_hub.service" in (path / "cmdline").read_bytes():
                return int(path.name)
    raise LookupError("The service doesn't run.")


def test_the_page_ends_with_the_hub():
    hub = Hub(spawner="hami-simple")
    hub.settings["page"] = {}
    with hub:
        until_page(hub.url)
        service = _service_of(hub)
        os.kill(int((hub.folder / "hub.pid").read_text()), signal.SIGTERM)
        until(lambda: not Path(f"/proc/{service}").exists())
