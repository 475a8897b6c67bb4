"""The chart as text: every value is described and in force, a misspelt one is refused.  Needs helm, and no cluster."""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.scheduler.kube_scheduler import kube_scheduler_configuration
from cluster.settings import Settings, parse_settings
from hami_hub.core.names import NODE_REGISTER, SCHEDULER_ANNOTATIONS
from tests.cluster.rig import programs

CHART = Path(__file__).resolve().parents[2] / "helm" / "hami-hub"
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())

VALUE_SETS: dict[str, list[str]] = {
    "defaults": [],
    "simulated": ["devicePlugin.simulatedCards.count=1"],
    "renamed": ["resourceName=example.com/gpu", "resourceMem=example.com/mem", "schedulerName=other"],
    "cert-manager": ["scheduler.certManager.enabled=true"],
    "own issuer": ["scheduler.certManager.enabled=true", "scheduler.certManager.issuerRef.name=ca"],
    "prometheus": ["prometheus.enabled=true", "prometheus.labels.release=stack"],
    "dashboard": ["grafanaDashboard.enabled=true"],
    "hubs": ["hub.namespaces={one,two}", "hub.serviceAccount=jupyterhub"],
    "hubs and few others": ["hub.namespaces={one}", "networkPolicy.metricsFrom[0].podSelector.matchLabels.a=b"],
    "scheduler only": ["devicePlugin.enabled=false", "prometheus.enabled=true"],
    "runtime class": ["devicePlugin.runtimeClassName=nvidia", "devicePlugin.createRuntimeClass=true"],
    "escapes ended": ["devicePlugin.escapes=end"],
    "escapes ignored": ["devicePlugin.escapes=ignore"],
    "MIG": ["devicePlugin.migStrategy=mixed"],
    "one replica": ["scheduler.replicas=1", "scheduler.podDisruptionBudget.enabled=false"],
    "no policies": ["networkPolicy.enabled=false", "tests.enabled=false"],
    "registry": ["global.imageRegistry=registry.example:5000", "global.imagePullSecrets[0].name=pull"],
    "selectors": [
        "scheduler.admissionWebhook.namespaceSelector.matchLabels.team=ml",
        "scheduler.admissionWebhook.objectSelector.matchLabels.gpu=yes",
        "scheduler.nodeLabelSelector.pool=gpu",
    ],
    "named": ["fullnameOverride=gpus"],
}


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(programs.folder() / "helm"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def render(*settings: str, release: str = "hami-hub") -> list[dict[str, Any]]:
    # PyYAML's own loader takes longer than helm
    return [each for each in yaml.load_all(rendered(release, *settings), yaml.CSafeLoader) if each]


@functools.cache
def rendered(release: str, *settings: str) -> str:
    sets = [word for each in settings for word in ("--set", each)]
    result = helm("template", release, str(CHART), "--namespace", "hami-hub", "--kube-version", "v1.36.3", *sets)
    assert result.returncode == 0, result.stderr
    return result.stdout


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = (each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return found


def config(*settings: str) -> dict[str, str]:
    return dict(one(render(*settings), "ConfigMap", "hami-hub-config")["data"])


def settings_of(*settings: str) -> Settings:
    return parse_settings(config(*settings)["config.yaml"])


def described(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, value in schema.get("properties", {}).items():
        yield f"{path}{name}", value
        yield from described(value, f"{path}{name}.")


def leaves(values: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield f"{path}{name}"
        if isinstance(value, dict):
            yield from leaves(value, f"{path}{name}.")


def test_lint_finds_nothing() -> None:
    result = helm("lint", "--strict", str(CHART))
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_value_is_described_and_has_a_default() -> None:
    known = dict(described(SCHEMA))
    assert [path for path, value in known.items() if len(value.get("description", "")) < 10] == []
    missing = set(leaves(VALUES)) - set(known)
    # below these are maps whose keys are free
    assert {path for path in missing if "Selector." not in path and ".resources." not in path} == set()
    free = ("issuerRef.", "claims", "Selector.", ".tag", "resources.", "tolerations", "maxSurge")
    without_default = set(known) - set(leaves(VALUES))
    assert {path for path in without_default if not any(each in path for each in free)} == set()


def test_every_object_of_the_schema_is_closed() -> None:
    objects = [(path, value) for path, value in described(SCHEMA) if "properties" in value]
    assert [path for path, value in objects if value.get("additionalProperties") is not False] == []
    assert SCHEMA["additionalProperties"] is False


@pytest.mark.parametrize(
    "wrong",
    [
        "devicePlugin.deviceSplitCoun=3",
        "scheduler.defaultmem=1000",
        "resourcesName=example.com/gpu",
        "devicePlugin.deviceSplitCount=0",
        "devicePlugin.deviceMemoryScaling=a lot",
        "devicePlugin.migStrategy=single",
        "devicePlugin.simulatedCards.profile=T5",
        "scheduler.defaultCores=101",
        "devices.nvidia.gpuCorePolicy=hard",
        "resourceName=gpu",
        "devicePlugin.disablecorelimit=maybe",
    ],
)
def test_a_wrong_value_is_refused(wrong: str) -> None:
    result = helm("template", "hami-hub", str(CHART), "--set", wrong)
    assert result.returncode != 0
    assert wrong.split("=")[0].split(".")[-1] in result.stderr


@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS)
def test_it_renders_and_both_daemons_can_read_their_settings(values: list[str]) -> None:
    objects = render(*values)
    names = {(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects}
    assert len(names) == len(objects), "two objects have one name"
    (data,) = (
        each["data"] for each in objects if each["kind"] == "ConfigMap" and "config.yaml" in each.get("data", {})
    )
    parse_settings(data["config.yaml"])
    assert yaml.safe_load(data["kube-scheduler.yaml"])["kind"] == "KubeSchedulerConfiguration"


def test_the_defaults_are_those_of_the_daemons() -> None:
    assert settings_of() == Settings()


REACHES = [
    ("resourceName=a.b/c", "resources.count", "a.b/c"),
    ("resourceMem=a.b/c", "resources.memory", "a.b/c"),
    ("resourceMemPercentage=a.b/c", "resources.memory_percentage", "a.b/c"),
    ("resourceCores=a.b/c", "resources.cores", "a.b/c"),
    ("resourcePriority=a.b/c", "resources.priority", "a.b/c"),
    ("schedulerName=other", "scheduler.name", "other"),
    ("scheduler.defaultMem=4000", "scheduler.default_mem", 4000),
    ("scheduler.defaultCores=30", "scheduler.default_cores", 30),
    ("scheduler.defaultGPUNum=0", "scheduler.default_gpu_num", 0),
    ("scheduler.defaultSchedulerPolicy.nodeSchedulerPolicy=spread", "scheduler.node_policy", "spread"),
    ("scheduler.defaultSchedulerPolicy.gpuSchedulerPolicy=binpack", "scheduler.gpu_policy", "binpack"),
    ("scheduler.takeOver={mine}", "scheduler.take_over", ("mine",)),
    ("scheduler.nodeLabelSelector.pool=gpu", "scheduler.node_selector", "pool=gpu"),
    ("hub.namespaces={one,two}", "scheduler.hub_namespaces", ("one", "two")),
    ("scheduler.reservationSeconds=20", "scheduler.reservation_seconds", 20),
    ("devices.nvidia.gpuCorePolicy=force", "scheduler.core_policy", "force"),
    ("devicePlugin.deviceSplitCount=7", "device_plugin.device_split_count", 7),
    ("devicePlugin.deviceMemoryScaling=1.5", "device_plugin.device_memory_scaling", "1.5"),
    ("devicePlugin.migStrategy=mixed", "device_plugin.mig_strategy", "mixed"),
    ("devicePlugin.disablecorelimit=true", "device_plugin.disable_core_limit", True),
    ("devicePlugin.ignoredXids={13}", "device_plugin.ignored_xids", (13,)),
    ("devicePlugin.quarantineSeconds=5", "device_plugin.quarantine_seconds", 5),
    ("devicePlugin.unaccountedMemory=0", "device_plugin.unaccounted_memory", 0),
    ("devicePlugin.escapes=end", "device_plugin.escapes", "end"),
    ("devicePlugin.nvidiaNodeSelector.gpu=yes", "device_plugin.node_label", "gpu=yes"),
    ("devicePlugin.simulatedCards.count=2", "device_plugin.simulated_cards.count", 2),
    ("devicePlugin.simulatedCards.profile=A10", "device_plugin.simulated_cards.profile", "A10"),
]


@pytest.mark.parametrize(("value", "field", "expected"), REACHES)
def test_a_value_reaches_the_daemons(value: str, field: str, expected: object) -> None:
    """All at once, so that each also meets all the others."""
    found: Any = settings_of(*(each for each, _, _ in REACHES))
    default: Any = Settings()
    for part in field.split("."):
        found, default = getattr(found, part), getattr(default, part)
    assert found == expected
    assert found != default


def test_whole_numbers_and_the_default_scheduler() -> None:
    found = settings_of("devicePlugin.deviceMemoryScaling=2", "scheduler.forceOverwriteDefaultScheduler=false")
    assert found.device_plugin.device_memory_scaling == "2"
    assert found.scheduler.take_over == ("*user-scheduler",)


def test_kube_scheduler_is_told_what_the_extender_expects() -> None:
    values = ("resourceMem=a.b/mem", "schedulerName=other")
    expected = kube_scheduler_configuration(settings_of(*values), namespace="hami-hub")
    assert yaml.safe_load(config(*values)["kube-scheduler.yaml"]) == expected


def test_values_of_hami_given_as_text_mean_the_same() -> None:
    result = helm("template", "x", str(CHART), "--set-string", "devicePlugin.disablecorelimit=true")
    assert "disableCoreLimit: true" in result.stdout


def test_the_webhook_sees_only_pods_that_name_our_resources() -> None:
    webhook = one(render("resourceMem=example.com/mem"), "MutatingWebhookConfiguration", "hami-hub")["webhooks"][0]
    assert webhook["failurePolicy"] == "Fail"
    (condition,) = webhook["matchConditions"]
    assert "'example.com/mem'" in condition["expression"]
    assert "'nvidia.com/gpumem'" not in condition["expression"]
    (excluded,) = webhook["namespaceSelector"]["matchExpressions"]
    assert excluded["values"] == ["hami-hub", "kube-system"]


def test_the_policies_protect_what_the_daemons_write() -> None:
    objects = render()
    spec = one(objects, "ValidatingAdmissionPolicy", "hami-hub-annotations")["spec"]
    (changed,) = (each["expression"] for each in spec["variables"] if each["name"] == "changed")
    assert set(json.loads(changed.split(".filter(")[0])) == SCHEDULER_ANNOTATIONS
    own_node = one(objects, "ValidatingAdmissionPolicy", "hami-hub-own-node")["spec"]
    assert f"'{NODE_REGISTER}'" in own_node["validations"][1]["expression"]


ADDED = {"SYS_ADMIN": "devicePlugin.migStrategy=mixed", "KILL": "devicePlugin.escapes=end"}


def pod_specs(objects: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for each in objects:
        if each["kind"] in ("Deployment", "DaemonSet"):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]
        elif each["kind"] == "Pod":
            yield each["metadata"]["name"], each["spec"]


@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS)
def test_no_pod_has_more_than_it_needs(values: list[str]) -> None:
    for name, spec in pod_specs(render(*values)):
        assert not {"hostNetwork", "hostIPC"} & spec.keys(), name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        plugin = name.endswith("device-plugin")
        assert spec.get("hostPID", False) == (plugin and "devicePlugin.escapes=ignore" not in values)
        assert plugin or spec["securityContext"]["runAsNonRoot"]
        assert plugin or not any("hostPath" in each for each in spec.get("volumes", ()))
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"]["drop"] == ["ALL"]
            added = [capability for capability, value in ADDED.items() if plugin and value in values]
            assert security["capabilities"].get("add", []) == added
            assert ":latest" not in container["image"]
            assert name.endswith(("-ready", "-cards")) or container["resources"]["requests"]


@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS)
def test_no_role_is_wide(values: list[str]) -> None:
    objects = render(*values)
    for each in objects:
        if each["kind"] in ("ClusterRole", "Role"):
            assert "*" not in json.dumps(each["rules"]), each["metadata"]["name"]
        if each["kind"] in ("ClusterRoleBinding", "RoleBinding"):
            assert each["roleRef"]["name"] not in ("cluster-admin", "admin", "edit")
    secrets = [rule for each in objects for rule in each.get("rules", ()) if "secrets" in rule.get("resources", ())]
    assert all(rule["resourceNames"] for rule in secrets)


def test_kube_scheduler_has_the_version_of_the_cluster() -> None:
    def image(*values: str) -> str:
        spec = one(render(*values), "Deployment", "hami-scheduler")["spec"]["template"]["spec"]
        return next(each["image"] for each in spec["containers"] if each["name"] == "kube-scheduler")

    assert image() == "registry.k8s.io/kube-scheduler:v1.36.3"
    assert image("scheduler.kubeScheduler.imageTag=v1.36.1") == "registry.k8s.io/kube-scheduler:v1.36.1"
    assert image("global.imageRegistry=r.example") == "r.example/kube-scheduler:v1.36.3"
    result = helm("template", "x", str(CHART), "--kube-version", "v1.33.5-gke.1080000")
    assert "kube-scheduler:v1.33.5\n" in result.stdout


def test_an_old_cluster_is_refused() -> None:
    result = helm("template", "x", str(CHART), "--kube-version", "v1.29.0")
    assert result.returncode != 0
    assert ">=1.31.0" in result.stderr


def test_names_follow_the_release() -> None:
    objects = render(release="team-a")
    assert one(objects, "Deployment", "team-a-hami-hub-scheduler")
    webhook = one(objects, "MutatingWebhookConfiguration", "team-a-hami-hub")["webhooks"][0]
    assert webhook["clientConfig"]["service"]["name"] == "team-a-hami-hub-scheduler"


def test_the_dashboard_is_where_grafanas_sidecar_finds_it_and_as_it_is_written() -> None:
    assert "hami-hub.json" not in rendered("hami-hub")
    values = ("grafanaDashboard.enabled=true", "grafanaDashboard.namespace=monitoring", "grafanaDashboard.labels.a=b")
    values += ("grafanaDashboard.annotations.grafana_folder=GPUs", "global.annotations.team=ml")
    found = one(render(*values), "ConfigMap", "hami-hub-dashboard")
    assert found["metadata"]["namespace"] == "monitoring"
    assert found["metadata"]["labels"].items() >= {"grafana_dashboard": "1", "a": "b"}.items()
    assert found["metadata"]["annotations"] == {"grafana_folder": "GPUs", "team": "ml"}
    written = (CHART / "files" / "grafana-dashboard.json").read_text()
    assert json.loads(found["data"]["hami-hub.json"]) == json.loads(written)
    assert one(render(values[0]), "ConfigMap", "hami-hub-dashboard")["metadata"]["namespace"] == "hami-hub"


def test_prometheus_finds_both_daemons_and_leaves_the_labels_of_slices_alone() -> None:
    objects = render("prometheus.enabled=true", "prometheus.labels.release=stack", "global.annotations.team=ml")
    service = one(objects, "ServiceMonitor", "hami-scheduler")
    pods = one(objects, "PodMonitor", "hami-device-plugin")
    for monitor, endpoints in ((service, "endpoints"), (pods, "podMetricsEndpoints")):
        assert monitor["metadata"]["labels"]["release"] == "stack"
        assert monitor["metadata"]["annotations"] == {"team": "ml"}
        assert [each["honorLabels"] for each in monitor["spec"][endpoints]] == [True]


def test_one_name_stands_for_all_device_plugins_metrics() -> None:
    objects = render()
    service = one(objects, "Service", "hami-device-plugin")["spec"]
    plugin = one(objects, "DaemonSet", "hami-device-plugin")["spec"]["template"]
    (container,) = plugin["spec"]["containers"]
    (metrics,) = (port for port in container["ports"] if port["name"] == "metrics")
    assert service["clusterIP"] == "None"
    assert [port["port"] for port in service["ports"]] == [metrics["containerPort"]]
    assert service["selector"].items() <= plugin["metadata"]["labels"].items()


def metrics_peers(objects: list[dict[str, Any]], daemon: str) -> list[dict[str, Any]] | None:
    """Who may read a daemon's metrics; None: everybody."""
    rules = one(objects, "NetworkPolicy", daemon)["spec"]["ingress"]
    (rule,) = (rule for rule in rules if rule["ports"] == [{"port": "metrics"}])
    found: list[dict[str, Any]] | None = rule.get("from")
    return found


def test_a_hubs_page_may_read_what_is_in_use_where_only_some_may_and_nobodys_notebook() -> None:
    hubs = ("hub.namespaces={one,two}", "hub.podSelector.app=jupyterhub")
    closed = "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring"
    prometheus = {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}
    assert metrics_peers(render(*hubs), "hami-device-plugin") is None
    assert metrics_peers(render(closed), "hami-device-plugin") == [prometheus]
    objects = render(*hubs, closed)
    assert metrics_peers(objects, "hami-scheduler") == [prometheus]
    assert metrics_peers(objects, "hami-device-plugin") == [
        prometheus,
        *(
            {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
                "podSelector": {"matchLabels": {"component": "hub", "app": "jupyterhub"}},
            }
            for name in ("one", "two")
        ),
    ]


def test_a_hub_may_read_one_config_map_and_ask_the_scheduler_and_nothing_else() -> None:
    objects = render("hub.namespaces={one}")
    account = {"kind": "ServiceAccount", "name": "hub", "namespace": "one"}
    bound = [each for each in objects if each["kind"].endswith("Binding") and account in each.get("subjects", ())]
    rules = [one(objects, each["roleRef"]["kind"], each["roleRef"]["name"])["rules"] for each in bound]
    assert [rule for each in rules for rule in each] == [
        {"nonResourceURLs": ["/hami/inventory"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["hami-hub"], "verbs": ["get"]},
    ]
