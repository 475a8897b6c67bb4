"""JupyterHub in the cluster: its servers are pods on slices that the scheduler gives and the node holds them to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from tests.cluster.hami import Hami
from tests.cluster.hub_site import Failed, HubSite, hub_on
from tests.cluster.rig import images

PAM = "".join(f"{kind} required pam_permit.so\n" for kind in ("auth", "account", "session"))
PROFILES = [
    {"name": "cpu", "title": "CPU only", "gpu": False},
    {"name": "small", "title": "4 GiB · 25 %", "vram": "4 GiB", "cores": 25},
    {"name": "three", "title": "3000 MiB", "vram": "3000 MiB"},
    {"name": "whole", "title": "Whole card"},
    {"name": "other", "title": "Another amount", "vram": "2 GiB", "min_vram": "256 MiB"},
    {"name": "gone", "title": "An image that isn't there", "vram": "1 GiB"},
    {"name": "blocked", "title": "Without cloud metadata", "vram": "4 GiB"},
]
BLOCK = {
    "name": "block-cloud-metadata",
    "image": images.HOST_IMAGE,
    "imagePullPolicy": "Never",
    "command": ["true"],
    "volumeMounts": images.host_mounts()[1],
    "securityContext": {"privileged": True, "runAsUser": 0, "capabilities": {"add": ["NET_ADMIN"]}},
}
MISSING = "hami-hub-test/none:1"
OVERRIDES = {
    "gone": {"image": MISSING},
    # as zero-to-jupyterhub sets it up: a scheduler of its own for users, and a privileged container before each server
    "blocked": {
        "init_containers": [BLOCK],
        "scheduler_name": "jhub-user-scheduler",
        "allow_privilege_escalation": False,
    },
}
CODE = "from hami_hub.notebook import gpu; print(gpu.total_memory()); gpu.allocate('6 GiB')"


@pytest.fixture(scope="module")
def site(hami: Hami, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubSite]:
    overrides = {"profile_overrides": OVERRIDES}
    folder = tmp_path_factory.mktemp("hub")
    with hub_on(hami, folder, GpuSlices={"profiles": PROFILES}, GpuKubeSpawner=overrides) as made:
        made.cluster.kubectl("create", "configmap", "pam", "-n", made.namespace, f"--from-literal=su={PAM}")
        yield made


@pytest.fixture(autouse=True)
def _emptied(site: HubSite) -> Iterator[None]:
    yield
    site.stop_all()


def test_a_slice_of_4_gib_is_4_gib_whatever_way_a_process_is_started(site: HubSite) -> None:
    said = site.start("alice", {"profile": "small"})
    assert "You have 4 GiB · 25 % of a Tesla T4. Your server is starting." in said, said
    share = site.slice_of("alice")["placement"]["shares"][0]
    assert (share["vram_mib"], share["cores"]) == (4096, 25)
    site.exec("alice", "chmod", "711", "/root")  # this machine's Python may lie in it
    inside = dict(line.split("=", 1) for line in site.exec("alice", "env")[0].splitlines() if "=" in line)
    python = site.exec("alice", "python", "-c", "import sys; print(sys.executable)")[0].strip()
    card = [f"{name}={inside[name]}" for name in ("LD_LIBRARY_PATH", "HAMI_SIM_DIR")]
    for command in (
        ("env", "-i", *card, python),
        ("sh", "-c", f'exec {python} "$@"', "sh"),
        ("su", "-s", "/bin/sh", "-c", f'{python} "$@"', "jovyan", "--", "sh"),
        ("env", "LD_PRELOAD=", "CUDA_DEVICE_MEMORY_LIMIT_0=15000m", python),
    ):
        printed, errors = site.exec("alice", *command, "-c", CODE)
        assert printed.strip() == "4096 MiB", errors
        assert "OutOfMemoryError" in errors


def test_notebook_01_holds_under_nbval_in_a_slice_that_a_hub_gave(site: HubSite) -> None:
    site.start("alice", {"profile": "other", "vram": "4000 MiB"})
    root = Path(__file__).resolve().parents[2]
    notebook, rules = root / "notebooks" / "01-oom-at-limit.ipynb", root / "notebooks" / "nbval-sanitize.cfg"
    printed, errors = site.exec(
        "alice", "env", "HOME=/tmp", "python", "-m", "pytest", "-p", "no:cacheprovider", "-c", "/dev/null",
        "--rootdir=/tmp", "--nbval", "--nbval-current-env", f"--nbval-sanitize-with={rules}",
        "--nbval-cell-timeout=120", str(notebook),
    )  # fmt: skip
    assert " passed" in printed, printed + errors
    assert "failed" not in printed


def test_the_server_has_what_was_chosen_and_the_hub_says_so(site: HubSite) -> None:
    site.start("alice", {"profile": "other", "vram": "1 GiB"}, "train")
    pod = site.pod("alice", "train")
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert limits["nvidia.com/gpumem"] in ("1024", "1Ki")
    assert pod["spec"]["schedulerName"] == "hami-scheduler"
    assert pod["metadata"]["labels"]["hami.io/profile"] == "other"
    assert site.slice_of("alice", "train")["placement"]["node"] == "node0"


def test_a_server_without_a_gpu_is_placed_by_the_usual_scheduler(site: HubSite) -> None:
    site.start("carol", {"profile": "cpu"})
    assert site.pod("carol")["spec"]["schedulerName"] == "default-scheduler"
    held = site.slice_of("carol")
    assert (held["profile"], held["placement"]) == ("cpu", None)


def test_who_waits_knows_place_and_reason_and_starts_when_a_slice_comes_free(site: HubSite) -> None:
    site.start("alice", {"profile": "whole"})
    site.ask("bob", {"profile": "three"})
    said = site.until_told("bob", "in line")
    assert said.startswith("You are 1st in line. 3000 MiB is not free")
    site.api.delete("/users/alice/server")
    gone = _moment(site, lambda: site.pod("alice") is None)
    bound = _moment(site, lambda: site.pod("bob")["spec"].get("nodeName"))
    site.until_started("bob")
    print(f"\nThe pod that waited had its node {max(0.0, bound - gone):.2f} s after the one before it was gone.")
    assert bound - gone < 60  # kube-scheduler by itself looks again after 5 minutes


def _moment(site: HubSite, condition: Callable[[], object]) -> float:
    site.cluster.wait_for(condition, "the slice changes hands", every=0.02)
    return time.monotonic()


def test_what_can_never_fit_is_told_at_once(site: HubSite) -> None:
    with pytest.raises(Failed, match="20 GiB can never fit"):
        site.start("bob", {"profile": "other", "vram": "20 GiB"})
    assert site.pod("bob") is None


def test_a_hub_that_restarts_keeps_running_servers_and_forgets_who_waited(site: HubSite) -> None:
    site.start("alice", {"profile": "whole"})
    before, pod = site.slice_of("alice"), site.pod("alice")
    site.ask("bob", {"profile": "small"})
    site.until_told("bob", "in line")
    site.kill()
    site.begin()
    site.until_gone("bob")
    assert site.slice_of("alice") == before
    assert site.pod("alice")["metadata"]["uid"] == pod["metadata"]["uid"]
    site.stop("alice")
    site.start("bob", {"profile": "small"})


def test_a_server_has_its_slice_as_zero_to_jupyterhub_sets_it_up(site: HubSite) -> None:
    site.start("alice", {"profile": "blocked"})
    printed, errors = site.exec("alice", "python", "-c", CODE)
    assert printed.strip() == "4096 MiB", errors
    assert site.pod("alice")["spec"]["schedulerName"] == "hami-scheduler"


def test_a_quota_of_the_clusters_is_explained(site: HubSite) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": site.namespace},
        "spec": {"hard": {"requests.nvidia.com/gpumem": "3000"}},
    }
    site.cluster.apply(quota)
    try:
        site.cluster.wait_for(lambda: _counted(site), "the quota is in force")
        with pytest.raises(Failed, match=r"quota for servers here is used up: gpus.*nvidia.com/gpumem"):
            site.start("bob", {"profile": "small"})
        site.start("carol", {"profile": "three"})
    finally:
        site.cluster.kubectl("delete", "resourcequota", "gpus", "-n", site.namespace)


def _counted(site: HubSite) -> bool:
    found = site.cluster.get(f"/api/v1/namespaces/{site.namespace}/resourcequotas/gpus")
    return bool(found and (found.get("status") or {}).get("hard"))


def test_an_image_that_is_not_there_is_explained(site: HubSite) -> None:
    for _ in range(4):  # the hub gives up after 3 failures that count
        with pytest.raises(Failed, match=f"The image {MISSING} can't be fetched"):
            site.start("bob", {"profile": "gone"})
    assert site.alive
    site.until_gone("bob")
    site.start("carol", {"profile": "cpu"})
