"""A real JupyterHub whose servers are pods, of a cluster that does what the test says.

That real nodes do the same is shown in `tests/cluster`.
"""

from __future__ import annotations

import html
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jupyterhub
import pytest

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from fake_cluster import FakeCluster, limits_of, unschedulable
from fake_kubelet import FakeKubelet
from hub_process import Failed, Hub, _free_ports
from person import Person

OURS = "hami_hub.spawner.kube.GpuKubeSpawner"
WHY = "4 GiB · 25 % is not free now: the Tesla T4 has 2 GiB free, 4 GiB are asked for."


class Site:
    """A hub, its cluster and its node."""

    def __init__(self, hub: Hub, cluster: FakeCluster, kubelet: FakeKubelet) -> None:
        self.hub, self.cluster, self.kubelet = hub, cluster, kubelet

    def pods(self) -> list[str]:
        return sorted(self.cluster.objects["pods"])

    def until_pods(self, *names: str) -> None:
        self.cluster.wait_for(lambda: self.pods() == sorted(names))

    def state(self, user: str, server: str = "") -> dict[str, Any]:
        saved: dict[str, Any] = self.hub.servers(user)[server]["state"]["hami"]
        return saved


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with _site(OURS) as made:
        yield made


@pytest.fixture(autouse=True)
def _emptied(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "site" in request.fixturenames:
        site = request.getfixturevalue("site")
        site.cluster.refuse = None
        site.kubelet.room = lambda name: True
        site.cluster.queue.clear()
        site.hub.stop_all()
        site.until_pods()


class _site:  # noqa: N801
    def __init__(self, spawner: str, **config: Any) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hami-kube-")
        folder = Path(self._folder.name)
        self._cluster = FakeCluster(folder)
        self._cluster.__enter__()
        [port] = _free_ports(1)
        self._kubelet = FakeKubelet(self._cluster, folder, port)
        self._kubelet.__enter__()
        settings: dict[str, Any] = {
            "KubeSpawner": {"port": port, "namespace": "default", "image": "img:1", "delete_grace_period": 0},
            "GpuCluster": {"token_file": str(self._cluster.token_file)},
            "Spawner": {"env_keep": []},
            **config,
        }
        kubeconfig = {"KUBECONFIG": str(self._cluster.kubeconfig)}
        self._hub = Hub(spawner=spawner, simulated=False, environment=kubeconfig, **settings)

    def __enter__(self) -> Site:
        self._hub.__enter__()
        return Site(self._hub, self._cluster, self._kubelet)

    def __exit__(self, *error: Any) -> None:
        self._hub.close()
        self._kubelet.__exit__(None, None, None)
        self._cluster.__exit__()
        self._folder.cleanup()


def test_a_server_is_a_pod_with_its_slice_and_gives_it_back(site: Site) -> None:
    site.kubelet.room = lambda name: False
    site.hub.ask("alice", {"profile": "small"})
    with site.hub.followed("alice") as said:
        site.kubelet.room = lambda name: True
        site.kubelet.look_again()
    site.hub.until_started("alice")
    assert "You have 4 GiB · 25 % of a Tesla T4. Your server is starting." in said
    assert site.hub.call("alice", "env")["JUPYTERHUB_USER"] == "alice"
    [pod] = [site.cluster.pod(name) for name in site.pods()]
    assert limits_of(pod or {})["nvidia.com/gpumem"] == "4096"
    assert site.state("alice")["placement"]["shares"][0]["vram_mib"] == 4096
    site.hub.stop("alice")
    site.until_pods()


def test_named_servers_have_a_slice_each(site: Site) -> None:
    site.hub.start("alice", {"profile": "small"})
    site.hub.start("alice", {"profile": "half"}, "train")
    site.until_pods("jupyter-alice", "jupyter-alice--train")
    assert site.state("alice", "train")["placement"]["shares"][0]["vram_mib"] == 8192
    site.hub.stop("alice", "train")
    site.until_pods("jupyter-alice")


def test_who_waits_is_told_place_and_reason_and_starts_by_itself(site: Site) -> None:
    site.kubelet.room = lambda name: False
    site.cluster.queue["jupyter-bob"] = {"state": "waiting", "place": 1, "of": 1, "reason": WHY, "never": False}
    site.hub.ask("bob", {"profile": "small"})
    assert site.hub.until_waiting("bob") == f"You are 1st in line. {WHY}"
    site.kubelet.room = lambda name: True
    site.kubelet.look_again()
    site.hub.until_started("bob")


def test_who_stops_waiting_leaves_no_pod(site: Site) -> None:
    site.kubelet.room = lambda name: False
    site.hub.ask("bob", {"profile": "small"})
    site.until_pods("jupyter-bob")
    site.hub.stop("bob")
    site.until_pods()


def test_a_hub_that_restarts_keeps_what_runs_and_forgets_who_waited(site: Site) -> None:
    site.hub.start("alice", {"profile": "small"})
    site.hub.start("carol", {"profile": "cpu"})
    site.kubelet.room = lambda name: False
    site.hub.ask("bob", {"profile": "small"})
    site.until_pods("jupyter-alice", "jupyter-bob", "jupyter-carol")
    before = site.state("alice")
    site.hub.kill()
    site.hub.begin()
    site.until_pods("jupyter-alice", "jupyter-carol")
    assert site.hub.servers("alice")[""]["ready"]
    assert site.state("alice") == before
    assert (site.state("carol")["profile"], site.state("carol")["placement"]) == ("cpu", None)
    assert site.hub.call("alice", "env")["JUPYTERHUB_USER"] == "alice"
    site.hub.until_stopped("bob")
    site.hub.stop("alice")
    site.until_pods("jupyter-carol")


def test_a_server_that_ended_while_the_hub_was_away_is_cleared(site: Site) -> None:
    site.hub.start("alice", {"profile": "small"})
    site.hub.kill()
    site.kubelet.process("jupyter-alice").kill()
    site.cluster.wait_for(lambda: site.cluster.objects["pods"]["jupyter-alice"]["status"]["phase"] == "Failed")
    site.hub.begin()
    site.until_pods()
    site.hub.until_stopped("alice")


FAILING = {
    "ended": (None, r"ended while it was starting \(exit status 3\)"),
    "refused": ((403, 'admission webhook "w" denied the request: Ask for less.'), "refused your server. Ask for less."),
    "quota": ((403, "pods is forbidden: exceeded quota: gpus, used: 4"), "quota for servers here is used up"),
    "away": ((503, "not now"), "The cluster doesn't answer"),
}


@pytest.mark.parametrize(("refuse", "words"), FAILING.values(), ids=FAILING)
def test_failures_are_explained_and_never_end_the_hub(site: Site, refuse: Any, words: str) -> None:
    site.cluster.refuse = refuse
    begun = len(site.hub.log.read_text())
    for _ in range(4):  # the hub gives up after 3 that count
        with pytest.raises(Failed, match=words):
            site.hub.start("dies", {"profile": "small"})
    site.until_pods()
    site.cluster.refuse = None
    site.hub.start("carol", {"profile": "cpu"})
    said = site.hub.log.read_text()[begun:]
    assert "consecutive" not in said
    if jupyterhub.version_info[0] >= 6:
        assert "Traceback" not in said


def test_kubespawner_as_it_is_ends_the_hub() -> None:
    """The proof that the test above can fail."""
    profiles = [{"slug": "small", "display_name": "Small"}]
    with _site("kubespawner.KubeSpawner") as stock:
        stock.cluster.refuse = (403, "pods is forbidden: exceeded quota: gpus, used: 4")
        stock.hub.settings["config"]["KubeSpawner"]["profile_list"] = profiles
        stock.hub.kill()
        stock.hub.begin()
        for _ in range(3):
            with pytest.raises(Failed):
                stock.hub.start("dies", {"profile": "small"})
        stock.cluster.wait_for(lambda: not stock.hub.alive)


def test_a_refusal_of_the_clusters_is_text_wherever_it_is_shown(site: Site) -> None:
    site.cluster.refuse = (403, 'admission webhook "w" denied the request: <b>No</b>.')
    person = Person(site.hub, "bob")
    form = person.open("/hub/spawn")
    assert "Tesla T4, 15 GiB, all free" in form
    # The hub shows the form again if it is told within a second, else the page with the progress.
    page = person.send("/hub/spawn", {"profile": "small"})
    assert "<b>No</b>" not in page
    *_, last = site.hub.until_over("bob")
    assert last["html_message"] == html.escape("The cluster refused your server. <b>No</b>.")


def test_a_form_without_a_scheduler_still_starts_servers(site: Site) -> None:
    known, site.cluster.inventory = site.cluster.inventory, None
    try:
        site.cluster.wait_for(lambda: "What is free on the GPUs is not known now" in _form(site, "bob"))
        page = _form(site, "bob")
        assert "May wait" in page
        Person(site.hub, "bob").open("/hub/spawn?opt-profile=small")
        site.hub.until_started("bob")
    finally:
        site.cluster.inventory = known
    site.cluster.wait_for(lambda: "all free" in _form(site, "carol"))


def test_why_a_pod_has_no_place_without_a_gpu_scheduler(site: Site) -> None:
    site.kubelet.room = lambda name: False
    site.hub.ask("bob", {"profile": "cpu"})
    site.until_pods("jupyter-bob")
    site.cluster.status("jupyter-bob", unschedulable("0/3 nodes are available: 3 Insufficient cpu."))
    said = next(event["message"] for event in site.hub.progress("bob") if "CPU" in event["message"])
    assert said.startswith("No machine of the cluster has enough free CPU for your server.")


def test_the_state_is_plain_data(site: Site) -> None:
    site.hub.start("alice", {"profile": "small"})
    assert json.loads(json.dumps(site.state("alice")))["profile"] == "small"


def _form(site: Site, user: str) -> str:
    return Person(site.hub, user).open("/hub/spawn")
