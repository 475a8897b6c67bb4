"""The HTTPS side: admission by a real API server, and the inventory for ServiceAccounts."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest
import requests
import yaml

from tests.cluster.rig import Cluster
from tests.cluster.scheduler_rig import (  # noqa: F401  fixtures
    SYSTEM,
    Replica,
    bound_node,
    give_api,
    give_nodes,
    give_space,
    installed,
    pod,
    webhook,
)


@pytest.fixture(scope="module")
def replica(cluster: Cluster) -> Iterator[Replica]:
    with installed(cluster) as config:
        replica = Replica(cluster, 4, config)
        replica.start()
        replica.wait_ready()
        cluster.apply(*webhook(cluster, replica))
        cluster.wait_for(lambda: bundle(cluster), "the webhook's configuration has the CA")
        # the Service of a moment ago may not lead anywhere yet
        cluster.wait_for(lambda: judged(cluster), "the API server reaches the webhook")
        yield replica
        replica.stop()


def judged(cluster: Cluster) -> bool:
    made = cluster.would_create(pod("asks", scheduler="default-scheduler"))
    return made is not None and made["spec"]["schedulerName"] == "hami-scheduler"


def bundle(cluster: Cluster) -> str:
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/hami-hub"
    return cluster.get(path)["webhooks"][0]["clientConfig"].get("caBundle", "")


def config_map(cluster: Cluster) -> dict:
    return cluster.get(f"/api/v1/namespaces/{SYSTEM}/configmaps/hami-hub")["data"]


def token(cluster: Cluster, account: str, namespace: str) -> str:
    return cluster.kubectl("create", "token", account, f"--namespace={namespace}").strip()


def may_ask(cluster: Cluster, user: str) -> bool:
    return cluster.kubectl("auth", "can-i", "get", "/hami/inventory", f"--as={user}", check=False).strip() == "yes"


def ask(cluster: Cluster, path: str, bearer: str | None) -> tuple[int, dict]:
    """As a hub does: by the ConfigMap's url and CA, from inside the cluster."""
    data = config_map(cluster)
    ca = cluster.folder / "inventory-ca.crt"
    ca.write_text(data["ca.crt"])
    head = ["--header", f"Authorization: Bearer {bearer}"] if bearer else []
    command = ["curl", "--silent", "--max-time", "20", "--cacert", str(ca), "--write-out", "\n%{http_code}", *head]
    said = cluster.run(*command, data["url"] + path, capture_output=True, text=True, check=True).stdout
    body, _, status = said.rpartition("\n")
    return int(status), json.loads(body)


def test_a_pod_that_names_only_an_amount_becomes_ours(cluster, replica, api, nodes, space):
    (name,) = nodes.add()
    api.create(space, pod("small", gpu=None, scheduler="default-scheduler", **nodes.only()))
    made = cluster.wait_for(lambda: bound_node(found := cluster.pod("small", space)) and found, "it is bound")
    assert made["spec"]["schedulerName"] == "hami-scheduler"
    assert made["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert bound_node(made) == name


REFUSED = {
    "percentage of 101": (pod("bad", gpumem=None) | {}, {"nvidia.com/gpumem-percentage": "101"}, "101"),
    "nodeName": (pod("bad", nodeName="node0"), {}, "nodeName"),
    "forged annotation": (pod("bad", annotations={"hami.io/slices": "{}"}), {}, "hami.io/slices"),
}


@pytest.mark.parametrize(("manifest", "limits", "word"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_is_refused_with_the_value(cluster, replica, api, space, manifest, limits, word):
    manifest = json.loads(json.dumps(manifest))
    manifest["spec"]["containers"][0]["resources"]["limits"] |= limits
    with pytest.raises(requests.HTTPError) as refused:
        api.create(space, manifest)
    said = refused.value.response.json()
    assert said["code"] == 422
    assert word in said["message"]
    assert cluster.pod("bad", space) is None


def test_a_pod_without_a_slice_is_none_of_our_business(cluster, replica, api, space):
    plain = pod("plain", gpu=None, gpumem=None, cores=None, scheduler="default-scheduler", nodeName="node0")
    assert api.create(space, plain)["spec"]["schedulerName"] == "default-scheduler"


def test_a_ca_that_got_lost_is_put_back(cluster, replica, api, space):
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/hami-hub"
    before = bundle(cluster)
    patch = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    api.call("PATCH", path, patch, "application/json-patch+json")
    cluster.wait_for(lambda: bundle(cluster), "the CA is there again")
    assert bundle(cluster) == before


def test_new_certificates_are_served_without_a_restart(cluster, replica, api, nodes, space):
    nodes.add()
    before = bundle(cluster)
    api.call("DELETE", f"/api/v1/namespaces/{SYSTEM}/secrets/hami-hub-certs")
    cluster.wait_for(lambda: bundle(cluster) not in ("", before), "there is a new CA")

    def served() -> bool:
        found = cluster.kubectl_run("create", "-f", "-", f"--namespace={space}", stdin=json.dumps(pod("new")))
        return found.returncode == 0

    cluster.wait_for(served, "the API server trusts what is served")
    cluster.wait_for(
        lambda: base64.b64decode(bundle(cluster)).decode() == config_map(cluster)["ca.crt"], "hubs are told the same CA"
    )


def test_the_inventory_is_for_those_who_may(cluster, replica, api, nodes, space):
    (name,) = nodes.add(cards=2)
    api.create(space, pod("holder", gpumem=15000, **nodes.only()))
    cluster.wait_for(lambda: bound_node(cluster.pod("holder", space)), "the holder is bound")
    api.create(space, pod("waiting", gpumem=99000, **nodes.only()))
    cluster.wait_for(lambda: api.events(space, "waiting"), "the other is told that it waits")
    cluster.kubectl("create", "serviceaccount", "hub", f"--namespace={space}")
    hub = token(cluster, "hub", space)
    assert ask(cluster, "/v1/inventory", None)[0] == 401
    assert ask(cluster, "/v1/inventory", "nonsense")[0] == 401
    assert ask(cluster, "/v1/inventory", token(cluster, "default", space))[0] == 403
    binding = f"reader-{space}"
    role = ["--clusterrole=hami-hub-inventory-reader", f"--serviceaccount={space}:hub"]
    cluster.kubectl("create", "clusterrolebinding", binding, *role)
    try:
        cluster.wait_for(lambda: may_ask(cluster, f"system:serviceaccount:{space}:hub"), "the binding is in force")
        status, inventory = ask(cluster, "/v1/inventory", hub)
        assert status == 200
        (node,) = [each for each in inventory["nodes"] if each["name"] == name]
        assert sorted(card["usedVram"] for card in node["cards"]) == [0, 15000]
        (held,) = [each for each in inventory["slices"] if each["namespace"] == space]
        assert (held["pod"], held["container"], held["node"]) == ("holder", "main", name)
        (queued,) = [each for each in inventory["queue"] if each["namespace"] == space]
        assert (queued["pod"], queued["never"]) == ("waiting", True)
        assert queued["reason"]

        status, state = ask(cluster, f"/v1/pods/{space}/waiting", hub)
        assert (status, state["state"], state["never"]) == (200, "waiting", True)
        assert state["place"] <= state["of"]
        assert ask(cluster, f"/v1/pods/{space}/holder", hub)[1]["node"] == name
        assert ask(cluster, f"/v1/pods/{space}/nobody", hub)[1]["state"] == "unknown"
    finally:
        cluster.kubectl("delete", "clusterrolebinding", binding)


def test_metrics_and_the_configmap_say_what_hubs_and_prometheus_need(cluster, replica, api, nodes, space):
    (name,) = nodes.add()
    api.create(space, pod("holder", **nodes.only()))
    cluster.wait_for(lambda: bound_node(cluster.pod("holder", space)), "the holder is bound")
    held = f'hami_vgpu_memory_allocated_bytes{{namespace="{space}",node="{name}",pod="holder",container="main"'
    cluster.wait_for(lambda: replica.metric(held) == 3000 * 2**20, "the slice is in the metrics")
    assert replica.metric(f'hami_gpu_memory_limit_bytes{{node="{name}"') == 15360 * 2**20
    facts = config_map(cluster)
    assert facts["schedulerName"] == "hami-scheduler"
    assert json.loads(facts["resources"])["memoryPercentage"] == "nvidia.com/gpumem-percentage"
    assert facts["url"] == f"https://hami-scheduler.{SYSTEM}.svc:443"
    assert yaml.safe_load(cluster.kubeconfig.read_text())


@pytest.mark.parametrize("size", [10 * 2**20])
def test_a_body_that_is_too_long_is_refused_and_nothing_ends(cluster, replica, size):
    ca = cluster.folder / "inventory-ca.crt"
    ca.write_text(config_map(cluster)["ca.crt"])
    command = ["curl", "--silent", "--cacert", str(ca), "--data-binary", "@-", "--output", "/dev/null"]
    url = config_map(cluster)["url"] + "/webhook"
    said = cluster.run(*command, "--write-out", "%{http_code}", url, input="x" * size, capture_output=True, text=True)
    assert said.stdout == "413"
    assert replica.ready()
