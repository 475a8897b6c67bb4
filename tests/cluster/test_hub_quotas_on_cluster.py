"""Quotas, lifetimes, the page and languages where servers are pods: the same as on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from tests.cluster.hami import NAMESPACE, Hami
from tests.cluster.hub_site import ACCOUNT, ROLE, Failed, HubSite, hub_on
from tests.hub.page_visitor import Visitor, until_page

SMALL, WHOLE, MUTE = ({"profile": name} for name in ("small", "whole", "mute"))
PROFILES = [
    {"name": "cpu", "title": "CPU only", "gpu": False},
    {"name": "small", "title": "4 GiB · 25 %", "vram": "4 GiB", "cores": 25},
    {"name": "whole", "title": "Whole card"},
    {"name": "mute", "title": "Never answers", "vram": "1 GiB"},
]
CONFIG: dict[str, Any] = {
    "GpuSlices": {"profiles": PROFILES},
    "GpuKubeSpawner": {"profile_overrides": {"mute": {"cmd": ["sleep", "1000"], "args": []}}},
    "GpuPage": {"usage_url": f"http://hami-device-plugin.{NAMESPACE}.svc:9394/metrics"},
    "Authenticator": {"admin_users": ["ada"]},
}
HOLD = "import time; from hami_hub.notebook import gpu; held = gpu.allocate('1 GiB'); time.sleep(1000)"


@pytest.fixture(scope="module")
def shared(hami: Hami, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubSite]:
    with hub_on(hami, tmp_path_factory.mktemp("hub"), page=True, **CONFIG) as site:
        yield site


@pytest.fixture
def site(shared: HubSite) -> Iterator[HubSite]:
    """A hub without servers and groups; a test may leave nothing charged."""
    yield shared
    shared.stop_all()
    shared.delete_groups()
    shared.group("check", "checker", servers="1", vram="4GiB")
    shared.start("checker", SMALL)
    shared.stop("checker")
    shared.delete_groups()


def page_of(site: HubSite) -> Visitor:
    """The admin at the page."""
    until_page(site.url)
    return Visitor(site.url, "ada")


def payer(site: HubSite, user: str, server: str = "") -> str:
    """Who pays for a server, as its pod says."""
    return str(site.pod(user, server)["metadata"]["labels"]["hami.io/quota-group"])


def charged(page: Visitor) -> dict[str, int]:
    """How many servers are charged to each group, as the page says."""
    return {name: group["used"]["servers"] for name, group in page.sections()["groups"].items()}


def until_charged(site: HubSite, servers: dict[str, int]) -> None:
    """Until the page says so: what it knows of groups may be half a minute old."""
    page = page_of(site)
    site.cluster.wait_for(lambda: charged(page) == servers, f"{servers} are charged", every=1)


def pods_made(hami: Hami, site: HubSite) -> int:
    """How many pods were asked for in the hub's namespace, by the API server's own record."""
    return sum(
        each["verb"] == "create" and each["objectRef"].get("subresource") is None
        for each in hami.requests(f"/api/v1/namespaces/{site.namespace}/pods")
    )


def test_over_quota_there_is_never_a_pod(hami: Hami, site: HubSite) -> None:
    site.group("ml", "alice", "bob", vram="6GiB")
    site.start("alice", SMALL)
    assert payer(site, "alice") == "ml"
    before = pods_made(hami, site)
    assert before > 0
    assert site.refused("bob", SMALL) == (
        "Your start needs 4 GiB of VRAM, and 2 GiB is left of what the group ml has: 6 GiB of VRAM (hami.vram). "
        "In use: 4 GiB by 1 other. Pick 2 GiB or less, or try again when a server has stopped."
    )
    assert pods_made(hami, site) == before
    site.start("bob", {"profile": "cpu"})
    assert "hami.io/quota-group" not in site.pod("bob")["metadata"]["labels"]


def test_of_two_groups_the_one_that_is_named_pays_else_the_one_with_most_room(site: HubSite) -> None:
    site.group("ml", "carol", vram="4GiB")
    site.group("research", "carol", vram="12GiB")
    site.start("carol", SMALL)
    assert payer(site, "carol") == "research"
    site.start("carol", {**SMALL, "group": "ml"}, "second")
    assert payer(site, "carol", "second") == "ml"
    said = site.refused("carol", {**SMALL, "group": "ml"}, "third")
    assert said.startswith("Your start needs 4 GiB of VRAM, and 0 MiB is left of what the group ml has: 4 GiB")
    assert "It could be paid by: research." in said


def test_a_quota_that_is_lowered_on_the_page_ends_nothing(site: HubSite) -> None:
    site.group("ml", "alice", "bob", vram="8GiB")
    site.start("alice", SMALL)
    pod = site.pod("alice")["metadata"]["uid"]
    page = page_of(site)
    seen = {"If-Match": page.get("api/quotas/ml").headers["ETag"]}
    assert page.put("api/quotas/ml", {"hami.vram": "1GiB"}, **seen).status_code == 200
    assert page.put("api/quotas/ml", {"hami.vram": "8GiB"}, **seen).status_code == 409
    assert "more than the group ml ever has: 1 GiB" in site.refused("bob", SMALL)
    assert site.pod("alice")["metadata"]["uid"] == pod
    assert site.servers("alice")[""]["ready"]
    assert page.put("api/quotas/ml", {"hami.vram": "8GiB"}, **{"If-Match": "*"}).status_code == 200
    site.start("bob", SMALL)


def test_a_server_ends_with_its_time(site: HubSite) -> None:
    site.group("short", "alice", vram="4GiB", max_lifetime="30s")
    site.start("alice", SMALL)
    site.until_gone("alice")
    page = page_of(site)

    def starts() -> list[Any]:
        return list(page.get("api/starts", q="alice", reason="hami-lifetime").json()["rows"])

    site.cluster.wait_for(starts, "the page knows", every=1)
    assert {(each["state"], each["group"]) for each in starts()} == {("ended", "short")}
    site.start("alice", SMALL)


def test_a_hub_that_ends_in_the_middle_of_starts_charges_nobody_for_them(site: HubSite) -> None:
    site.group("waits", "bob", servers="1")
    site.group("starts", "dave", servers="1")
    site.ask("dave", MUTE)
    site.until_told("dave", "You have 1 GiB")
    site.ask("bob", WHOLE)
    site.until_told("bob", "in line")
    until_charged(site, {"waits": 1, "starts": 1})
    site.kill()
    site.begin()
    for user in ("bob", "dave"):
        site.until_gone(user)
    until_charged(site, {"waits": 0, "starts": 0})
    site.start("dave", SMALL)
    site.start("bob", SMALL)


def test_a_hub_that_starts_anew_charges_what_runs(site: HubSite) -> None:
    site.group("ml", "alice", "bob", vram="6GiB", max_lifetime="8h")
    site.start("alice", SMALL)
    before, pod = site.slice_of("alice"), site.pod("alice")["metadata"]["uid"]
    site.kill()
    site.begin()
    assert (site.slice_of("alice"), site.pod("alice")["metadata"]["uid"]) == (before, pod)
    said = site.refused("bob", SMALL)
    assert "2 GiB is left of what the group ml has" in said
    assert "The first of them ends within 8 hours." in said
    page = page_of(site)

    def shown() -> list[Any]:
        return [(row["user"], row["group"], row["until"]) for row in page.sections()["slices"].values()]

    wanted = [("alice", "ml", before["charge"]["until"])]
    site.cluster.wait_for(lambda: shown() == wanted, "the page shows whose the slice is", every=1)
    site.stop("alice")
    site.start("bob", SMALL)


def test_the_page_shows_the_clusters_cards_who_is_on_them_and_what_is_really_in_use(site: HubSite) -> None:
    site.group("ml", "alice", "bob", vram="24GiB")
    site.start("alice", SMALL)
    site.exec("alice", "sh", "-c", 'exec python -c "$1" > /dev/null 2>&1 &', "sh", HOLD)
    site.ask("bob", WHOLE)
    page = page_of(site)

    def look() -> Any:
        seen = page.sections()
        used = any(used >= 1024 for used in seen["used"].values())
        waits = any(each["place"] for each in seen["waiting"].values())
        return seen if used and waits and "ml" in seen["groups"] else None

    # what it knows of groups may be half a minute old, and what plugins say a scrape
    seen = site.cluster.wait_for(look, "the page shows it", seconds=150, every=1)
    [(uuid, card)] = seen["cards"].items()
    assert card["node"] in ("node0", "node1")  # whichever has the plugin's label
    assert (card["model"], card["vram"], card["state"]) == ("Tesla T4", 15360, "ok")
    [row] = seen["slices"].values()
    shown = {name: row[name] for name in ("user", "group", "profile", "card", "vram", "cores")}
    assert shown == {
        "user": "alice", "group": "ml", "profile": "small", "card": uuid, "vram": 4096, "cores": 25,
    }  # fmt: skip
    assert 1024 <= seen["used"][row["id"]] <= 4096
    [waits] = seen["waiting"].values()
    assert (waits["user"], waits["group"], waits["place"]) == ("bob", "ml", 1)
    assert "not free" in waits["why"]
    assert seen["groups"]["ml"]["used"] == {"vram": 4096 + 15360, "cores": 125, "servers": 2}
    assert seen["notes"] == {}


def test_who_reads_japanese_is_told_so_and_the_others_read_english(site: HubSite) -> None:
    site.group("ml", "alice", "bob", vram="20GiB")
    site.start("alice", WHOLE)
    site.ask("bob", SMALL, language="ja,en;q=0.5")
    said = site.until_told("bob", "番目")
    assert said.startswith("順番待ちの 1 番目です。「4 GiB · 25 %」の空きが")
    assert site.pod("bob")["metadata"]["annotations"]["hami.io/asks"] == "4 GiB · 25 %"
    assert "You are 1st in line. 4 GiB · 25 % is not free" in site.log.read_text()
    with pytest.raises(Failed, match=r"グループ ml.*20 GiB"):
        site.start("bob", WHOLE, "second", language="ja")


def test_the_hub_may_do_what_zero_to_jupyterhub_lets_it_and_ask_the_scheduler(hami: Hami, shared: HubSite) -> None:
    account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": shared.namespace}
    rules: list[Any] = []
    for scope in ("clusterrole", "role"):
        base = "/apis/rbac.authorization.k8s.io/v1"
        roles = {
            (each["metadata"].get("namespace"), each["metadata"]["name"]): each["rules"]
            for each in hami.cluster.get(f"{base}/{scope}s")["items"]
        }
        for binding in hami.cluster.get(f"{base}/{scope}bindings")["items"]:
            if any(account.items() <= each.items() for each in binding.get("subjects", [])):
                rules += roles[binding["metadata"].get("namespace"), binding["roleRef"]["name"]]
    ours = [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["hami-hub"]},
        {"verbs": ["get"], "nonResourceURLs": ["/hami/inventory"]},
    ]
    assert sorted(map(repr, map(ordered, rules))) == sorted(map(repr, map(ordered, [*ROLE, *ours])))
    name = f"system:serviceaccount:{shared.namespace}:{ACCOUNT}"
    asked = [each for each in hami.requests(name) if each["user"]["username"] == name]
    assert asked
    assert [each["requestURI"] for each in asked if each["responseStatus"]["code"] == 403] == []


def ordered(rule: dict[str, Any]) -> list[Any]:
    return sorted((key, sorted(values)) for key, values in rule.items())
