"""Experiments 1 and 2: what the chart installs, where, and what a node with a card then looks like."""

from __future__ import annotations

from tests.cluster.hami import COUNT, Hami


def containers(pod: dict) -> dict[str, str]:  # type: ignore[type-arg]
    return {each["name"]: each["image"] for each in pod["spec"]["containers"]}


def all_ready(pod: dict) -> bool:  # type: ignore[type-arg]
    statuses = pod["status"].get("containerStatuses", [])
    return bool(statuses) and all(each["ready"] for each in statuses)


def test_experiment_01_both_run_and_the_plugin_only_on_labelled_nodes(hami: Hami) -> None:
    hami.cluster.wait_for(lambda: all(map(all_ready, hami.pods("scheduler"))), "they are ready again")
    schedulers = hami.pods("scheduler")
    assert len(schedulers) == 2
    assert containers(schedulers[0])["kube-scheduler"] == "registry.k8s.io/kube-scheduler:v1.36.1"
    (plugin,) = hami.pods("device-plugin")
    assert plugin["spec"]["nodeName"] == "node0"
    assert all_ready(plugin)


def test_experiment_01_a_taint_without_its_toleration_keeps_the_plugin_away_and_helm_test_says_why(hami: Hami) -> None:
    hami.cluster.kubectl("taint", "node", "node1", "team=other:NoSchedule")
    hami.label("node1")
    try:
        result = hami.cluster.helm("test", "hami-hub", "--namespace", "hami-hub", "--logs", "--timeout", "180s")
        assert result.returncode == 0, result.stderr + hami.describe()
        assert "node0: Tesla T4" in result.stdout
        assert (
            "node1 has the taint team=other:NoSchedule, which devicePlugin.tolerations doesn't bear: "
            "add {key: team, operator: Exists, effect: NoSchedule} there." in result.stdout
        )
        assert [pod["spec"]["nodeName"] for pod in hami.pods("device-plugin")] == ["node0"]
    finally:
        hami.label("node1", on=False)
        hami.cluster.kubectl("taint", "node", "node1", "team-")


def test_experiment_02_the_node_tells_of_its_card(hami: Hami) -> None:
    assert hami.node()["status"]["capacity"][COUNT] == "10"
    (card,) = hami.register()
    assert card["id"].startswith("GPU-")
    assert {key: card[key] for key in ("count", "devmem", "devcore", "type", "mode", "health")} == {
        "count": 10,
        "devmem": 15360,
        "devcore": 100,
        "type": "NVIDIA-Tesla T4",
        "mode": "hami-core",
        "health": True,
    }
