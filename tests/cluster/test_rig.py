"""The test cluster is what the other tests of this folder take it for."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.cluster.rig import Cluster, ClusterError, cgroups, images
from tests.cluster.rig.processes import Process
from tests.cluster.rig.waiting import until

REPOSITORY = images.REPOSITORY
SERVER = "import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8080)"
NS_GET_PARENT = 0xB702  # linux/nsfs.h
FETCH = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).status)"


@pytest.fixture(scope="module")
def other() -> Iterator[Cluster]:
    """A cluster beside the usual one, with two nodes."""
    with Cluster(f"rig-other-{os.getpid()}", nodes=2) as cluster:
        yield cluster


def test_pod_runs_and_answers_logs_and_exec(cluster: Cluster, namespace: str) -> None:
    cluster.apply(images.host_pod("a", ["sh", "-c", "echo hello; sleep 600"], namespace=namespace))
    cluster.wait_pod("a", namespace=namespace)
    cluster.wait_for(lambda: cluster.kubectl("logs", "a", "-n", namespace) == "hello\n", "it has said hello")

    def says() -> bool:
        return cluster.kubectl("exec", "-n", namespace, "a", "--", "echo", "there", check=False) == "there\n"

    cluster.wait_for(says, "a command runs in the pod", every=1)


def test_pod_knows_the_api_server_and_is_known_to_it(cluster: Cluster, namespace: str) -> None:
    program = (
        "from kubernetes import client, config; config.load_incluster_config();"
        "print(client.AuthenticationV1Api().create_self_subject_review({}).status.user_info.username)"
    )
    cluster.apply(images.host_pod("a", ["python", "-c", program], namespace=namespace))
    cluster.wait_pod("a", "Succeeded", namespace=namespace)
    assert cluster.kubectl("logs", "a", "-n", namespace) == f"system:serviceaccount:{namespace}:default\n"


def test_service_is_reached_by_name_and_by_address_from_everywhere(cluster: Cluster, namespace: str) -> None:
    server = images.host_pod("a", ["python", "-c", SERVER], namespace=namespace, metadata={"labels": {"app": "a"}})
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"selector": {"app": "a"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    cluster.apply(server, service, images.host_pod("b", ["sleep", "600"], namespace=namespace))
    cluster.wait_pod("a", namespace=namespace)
    cluster.wait_pod("b", namespace=namespace)
    address = cluster.get(f"/api/v1/namespaces/{namespace}/services/web")["spec"]["clusterIP"]
    for pod in ("a", "b"):
        for name in ("web", f"web.{namespace}.svc.cluster.local", address):
            command = ("exec", "-n", namespace, pod, "--", "python", "-c", FETCH, f"http://{name}/")
            cluster.wait_for(lambda c=command: cluster.kubectl(*c, check=False) == "200\n", f"{pod} reaches {name}")
    assert cluster.run(sys.executable, "-c", FETCH, f"http://web.{namespace}.svc.cluster.local").stdout == "200\n"
    port = cluster.forward(address, 80)
    assert subprocess.run([sys.executable, "-c", FETCH, f"http://127.0.0.1:{port}"]).returncode == 0


@pytest.mark.parametrize(("profile", "allowed"), [("RuntimeDefault", False), ("Unconfined", True)])
def test_seccomp_profile_is_in_force(cluster: Cluster, namespace: str, profile: str, allowed: bool) -> None:
    security = {"seccompProfile": {"type": profile}}
    cluster.apply(images.host_pod("a", ["unshare", "-U", "true"], namespace=namespace, securityContext=security))
    pod = cluster.wait_pod("a", "Succeeded", "Failed", namespace=namespace)
    assert (pod["status"]["phase"] == "Succeeded") == allowed


def test_admission_policies_know_the_node_of_a_token(cluster: Cluster) -> None:
    """What the device plugin's own rights rest on."""
    expression = "request.userInfo.extra['authentication.kubernetes.io/node-name'][0] == object.metadata.name"
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "rig"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["nodes"]}
                ]
            },
            "matchConditions": [{"name": "rig", "expression": "'rig' in object.metadata.annotations"}],
            "validations": [{"expression": expression, "message": "not your node"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "rig"},
        "spec": {"policyName": "rig", "validationActions": ["Deny"]},
    }
    cluster.apply(policy, binding)
    annotate = ("annotate", "--overwrite", "node", "node0", "rig=x")

    def refused() -> bool:
        result = cluster.kubectl_run(*annotate)
        cluster.kubectl("annotate", "node", "node0", "rig-")
        return "ValidatingAdmissionPolicy 'rig'" in result.stderr

    try:
        cluster.wait_for(refused, "the policy refuses the admin, who has no node")
    finally:
        cluster.kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "rig")


def test_kubelet_and_containerd_restart_under_a_running_pod(cluster: Cluster, namespace: str) -> None:
    cluster.apply(images.host_pod("a", ["sleep", "600"], namespace=namespace))
    before = cluster.wait_pod("a", namespace=namespace)["status"]["containerStatuses"][0]
    node = cluster.nodes[0]
    node.kubelet.restart(kill=True)
    node.containerd.restart(kill=True)
    cluster.wait_for(lambda: cluster.can_exec("a", namespace), "the kubelet reaches containerd")
    assert cluster.kubectl("exec", "-n", namespace, "a", "--", "echo", "there") == "there\n"
    after = cluster.pod("a", namespace)["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)


def test_control_plane_goes_away_and_comes_back(cluster: Cluster, namespace: str) -> None:
    for part in (cluster.apiserver, cluster.etcd, cluster.scheduler, cluster.controller_manager):
        part.stop()
        assert part.process is None
    for part in (cluster.etcd, cluster.apiserver, cluster.scheduler, cluster.controller_manager):
        part.start()
    cluster.apply(images.host_pod("a", ["true"], namespace=namespace))
    cluster.wait_pod("a", "Succeeded", namespace=namespace)


def test_audit_log_tells_who_wrote_what(cluster: Cluster, namespace: str) -> None:
    cluster.apply(images.host_pod("a", ["true"], namespace=namespace))
    cluster.wait_pod("a", "Succeeded", namespace=namespace)
    bound = [
        event["user"]["username"]
        for event in cluster.audit_events()
        if event.get("objectRef", {}).get("subresource") == "binding" and event["objectRef"]["namespace"] == namespace
    ]
    assert bound == ["system:kube-scheduler"]


def test_nodes_have_files_of_their_own(other: Cluster) -> None:
    for node in other.nodes:
        for path in ("/run/hami/x", "/var/run/cdi/x", "/usr/local/vgpu/x", "/var/lib/kubelet/device-plugins/x"):
            node.exec(["mkdir", "-p", str(Path(path).parent)])
            node.exec(["sh", "-c", f"echo {node.name} > {path}"])
    for node in other.nodes:
        assert (node.run_dir / "x").read_text() == f"{node.name}\n"
        assert node.path("/usr/local/vgpu/x").read_text() == f"{node.name}\n"
        assert node.path("/var/lib/kubelet/pod-resources/kubelet.sock").is_socket()
        assert node.exec(["stat", "-f", "-c", "%T", "/run/hami"]).stdout == "tmpfs\n"
    assert not Path("/usr/local/vgpu/x").exists()


def test_pods_of_two_nodes_reach_each_other(other: Cluster) -> None:
    with other.namespace("reach") as namespace:
        other.apply(
            images.host_pod("a", ["python", "-c", SERVER], namespace=namespace, nodeName="node0"),
            images.host_pod("b", ["sleep", "600"], namespace=namespace, nodeName="node1"),
        )
        address = other.wait_pod("a", namespace=namespace)["status"]["podIP"]
        other.wait_pod("b", namespace=namespace)
        command = ("exec", "-n", namespace, "b", "--", "python", "-c", FETCH, f"http://{address}:8080/")
        other.wait_for(lambda: other.kubectl(*command, check=False) == "200\n", "b reaches a")


def test_two_clusters_never_meet(cluster: Cluster, other: Cluster) -> None:
    """They have the same addresses, and nothing else in common."""
    assert cluster.kubeconfig.read_text() != other.kubeconfig.read_text()
    with cluster.namespace("only-here"):
        assert other.get("/api/v1/namespaces/only-here") is None
    token = json.loads(cluster.kubeconfig.read_text())["users"][0]["user"]["token"]
    assert "Unauthorized" in other.kubectl_run("--token", token, "get", "nodes").stderr


def test_second_start_of_a_name_is_refused_in_a_sentence(other: Cluster) -> None:
    with pytest.raises(ClusterError, match=f"A cluster named {other.name} is running in .*: take another name, or"):
        Cluster(other.name).start()
    assert other.running


RIG = [sys.executable, "-m", "tests.cluster.rig"]


@contextmanager
def _up(name: str) -> Iterator[tuple[Cluster, subprocess.Popen[str]]]:
    """A cluster started by the command line, as a person does."""
    name = f"{name.lower()}-{os.getpid()}"
    process = subprocess.Popen([*RIG, "up", "--name", name], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert f"The cluster {name} is ready" in process.stdout.readline()
        yield Cluster(name).attach(), process
    finally:
        process.kill()
        process.wait()
        Cluster(name).clean()


def _inside(cluster: Cluster) -> list[Process]:
    """All processes of the cluster, those in pods included."""
    assert cluster.control.init
    ours = Path(f"/proc/{cluster.control.init.pid}/ns/pid").stat().st_ino
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if ours in _namespaces(folder / "ns" / "pid"):
                found.append(Process.of(int(folder.name)))
    assert len(found) > 10
    return found


def _namespaces(file: Path) -> Iterator[int]:
    """The inodes of a process's PID namespace and of those around it."""
    with ExitStack() as stack, suppress(PermissionError):  # it isn't for us to see, or lies beyond our own
        namespace = os.open(file, os.O_RDONLY)
        while True:
            stack.callback(os.close, namespace)
            yield os.fstat(namespace).st_ino
            namespace = fcntl.ioctl(namespace, NS_GET_PARENT)


def _left(cluster: Cluster, processes: list[Process]) -> list[str]:
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if cluster.handle.name in line]
    groups = [str(path) for path in cgroups.ROOT.glob(f"**/hami-cluster-{cluster.name}")]
    folders = [str(path) for path in (cluster.handle, cluster.folder) if path.exists()]
    return [*mounts, *groups, *folders, *(str(each) for each in processes if each.alive)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_by_hand_ends_clean(number: signal.Signals) -> None:
    with _up(f"rig-hand-{number.name}") as (cluster, process):
        cluster.apply(images.host_pod("a", ["sleep", "600"]))
        cluster.wait_pod("a")
        inside = _inside(cluster)
        process.send_signal(number)
        assert process.wait(300) == 0  # a disk may take a minute to remove the images
        assert _left(cluster, inside) == []


def test_down_removes_what_a_killed_one_left() -> None:
    with _up("rig-killed") as (cluster, process):
        cluster.apply(images.host_pod("a", ["sleep", "600"]))
        cluster.wait_pod("a")
        inside = _inside(cluster)
        process.kill()
        process.wait(60)
        until(lambda: not any(each.alive for each in inside), "all its processes are gone")
        subprocess.run([*RIG, "down", "--name", cluster.name], cwd=REPOSITORY, check=True)
        assert _left(cluster, inside) == []
