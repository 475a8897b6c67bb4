"""What the daemons may do is what they do, by the API server's own record of every request."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import pytest

from tests.cluster.hami import COUNT, MEMORY, NAMESPACE, RELEASE, Hami

ACCOUNTS = {name: f"system:serviceaccount:{NAMESPACE}:{name}" for name in ("hami-scheduler", "hami-device-plugin")}
# Granted, and only asked for when something is wrong.
RARE = {
    "hami-scheduler": {
        ("get", "", "pods"),  # a Binding was answered with a conflict
        ("patch", "", "pods/status"),  # a waiting pod wasn't woken by kube-scheduler itself
    },
    "hami-device-plugin": {
        ("get", "", "pods"),  # a container starts before the watch has told of its pod
        ("create", "", "events"),  # a card holds memory that no slice accounts for
    },
}

Right = tuple[str, str, str]


def granted(hami: Hami, account: str) -> set[Right]:
    """Verbs on resources of the chart's own roles: (verb, API group, resource)."""
    user = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    rights: set[Right] = set()
    for scope in ("clusterrole", "role"):
        base = "/apis/rbac.authorization.k8s.io/v1"
        roles = {
            (each["metadata"].get("namespace"), each["metadata"]["name"]): each["rules"] or []
            for each in hami.cluster.get(f"{base}/{scope}s")["items"]
        }
        for binding in hami.cluster.get(f"{base}/{scope}bindings")["items"]:
            bound = any(user.items() <= each.items() for each in binding.get("subjects", []))
            name = binding["roleRef"]["name"]
            if bound and not name.startswith("system:"):
                rules = roles[binding["metadata"].get("namespace"), name]
                rights |= {right for rule in rules for right in rights_of(rule)}
    return rights


def rights_of(rule: dict[str, Any]) -> Iterator[Right]:
    for verb in rule["verbs"]:
        for group in rule.get("apiGroups", []):
            for resource in rule.get("resources", []):
                yield verb, group, resource


def requests(hami: Hami, account: str) -> list[dict[str, Any]]:
    return [each for each in hami.requests(ACCOUNTS[account]) if each["user"]["username"] == ACCOUNTS[account]]


def right(event: dict[str, Any]) -> Right:
    target = event.get("objectRef", {})
    resource = "/".join(filter(None, (target.get("resource", ""), target.get("subresource", ""))))
    return event["verb"], target.get("apiGroup", ""), resource


@dataclass(frozen=True)
class Work:
    """Everything that a release does in its daily work was done, since then and in that namespace."""

    since: str
    space: str


@pytest.fixture(scope="module")
def work(hami: Hami) -> Iterator[Work]:
    began = datetime.now(timezone.utc).isoformat()
    with hami.cluster.namespace("daily-work") as space:
        hami.pod("runs", {COUNT: 1, MEMORY: 1000}, namespace=space)
        hami.pod("waits", {COUNT: 1}, namespace=space, wait=False)
        hami.wait_event("waits", space, "FilteringFailed")
        result = hami.cluster.helm("test", RELEASE, "--namespace", NAMESPACE, "--timeout", "180s")
        assert result.returncode == 0, result.stderr
        yield Work(began, space)


def test_nothing_is_refused_and_nothing_is_granted_in_vain(hami: Hami, work: Work) -> None:
    for account, user in ACCOUNTS.items():
        events = requests(hami, account)
        refused = [
            (right(each), each["responseStatus"].get("message"))
            for each in events
            if each["responseStatus"]["code"] == 403
            and each["userAgent"].startswith(("hami-hub-", "kube-scheduler"))
            and each["requestReceivedTimestamp"] > work.since  # not while a release was taken away
            and "is being terminated" not in each["responseStatus"].get("message", "")  # the namespace of a test before
        ]
        assert refused == [], user
        asked = {right(each) for each in events}
        assert granted(hami, account) - asked - RARE[account] == set(), user


def test_one_write_for_each_pod(hami: Hami, work: Work) -> None:
    writes = [
        right(each)
        for each in requests(hami, "hami-scheduler")
        if f"/namespaces/{work.space}/pods/runs" in each["requestURI"] and each["verb"] not in ("get", "list", "watch")
    ]
    assert writes == [("create", "", "pods/binding")]


def test_a_plugin_may_change_one_annotation_of_its_own_node_and_nothing_else(hami: Hami) -> None:
    """With the token of the plugin's own pod, as whoever got hold of it would have it."""
    (plugin,) = hami.pods("device-plugin")
    name, uid = plugin["metadata"]["name"], plugin["metadata"]["uid"]
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={name}", f"--bound-object-uid={uid}")
    token = hami.cluster.kubectl("create", "token", "hami-device-plugin", "-n", NAMESPACE, *bound).strip()
    stolen = hami.cluster.kubectl("create", "token", "hami-device-plugin", "-n", NAMESPACE).strip()
    text = hami.node()["metadata"]["annotations"]["hami.io/node-nvidia-register"]

    def attempt(*words: str, token: str = token) -> str:
        # kubectl would use the admin's kubeconfig for what --token doesn't cover
        result = hami.cluster.kubectl_run(f"--token={token}", *words)
        return "" if result.returncode == 0 else result.stderr

    own, other = (("annotate", "node", name, "--overwrite") for name in ("node0", "node1"))
    assert attempt(*own, f"hami.io/node-nvidia-register={text}") == ""
    assert "may not change node node1" in attempt(*other, "hami.io/node-nvidia-register=x")
    assert "may not change node" in attempt(*own, "hami.io/node-nvidia-register=x", token=stolen)
    only = "may change its node's annotation hami.io/node-nvidia-register, and nothing else"
    assert only in attempt(*own, "hami.io/device-cordon=x")
    assert only in attempt("label", "node", "node0", "gpu=off", "--overwrite")
    assert only in attempt("patch", "node", "node0", "-p", '{"spec":{"unschedulable":true}}')
    for words in (("get", "secrets", "-A"), ("delete", "pod", name, "-n", NAMESPACE), ("get", "nodes")):
        assert "Forbidden" in attempt(*words) or "forbidden" in attempt(*words), words
