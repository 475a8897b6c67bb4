"""Every part ends and comes back while slices run and pods wait: nothing is lost, doubled or disturbed."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from tests.cluster.hami import NAMESPACE, Hami
from tests.cluster.slices_at_work import SlicesAtWork


@pytest.fixture
def at_work(hami: Hami, space: str) -> SlicesAtWork:
    return SlicesAtWork(hami, space)


@pytest.mark.parametrize(("component", "count"), [("scheduler", 2), ("device-plugin", 1)])
def test_a_daemon_is_killed(hami: Hami, at_work: SlicesAtWork, component: str, count: int) -> None:
    old = {pod["metadata"]["uid"] for pod in hami.pods(component)}
    selector = f"app.kubernetes.io/component={component}"
    hami.cluster.kubectl("delete", "pods", "-n", NAMESPACE, "-l", selector, "--grace-period=0", "--force")

    def ready() -> bool:
        fresh = [pod for pod in hami.pods(component) if pod["metadata"]["uid"] not in old]
        statuses = [pod["status"].get("containerStatuses", []) for pod in fresh]
        return len(fresh) == count and all(each and all(one["ready"] for one in each) for each in statuses)

    hami.cluster.wait_for(ready, f"{count} new pods of the {component} are ready")
    # when an old plugin's end comes late, the kubelet drops the new one, which then has to register again
    hami.cluster.wait_for(lambda: processes(hami, "cluster.deviceplugin") == 1, "the old plugin has ended")
    hami.wait_cards()
    at_work.goes_on()
    at_work.books_are_right()


def processes(hami: Hami, module: str) -> int:
    """How many processes of pods run a module."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cgroup"):
        with contextlib.suppress(OSError):
            ours = f"/hami-cluster-{hami.cluster.name}/" in path.read_text()
            found += ours and module.encode() in path.with_name("cmdline").read_bytes().split(b"\0")
    return found


def test_the_kubelet_restarts(hami: Hami, at_work: SlicesAtWork) -> None:
    hami.cluster.nodes[0].kubelet.restart()
    hami.wait_cards()
    at_work.goes_on()
    at_work.books_are_right()


def test_containerd_restarts(hami: Hami, at_work: SlicesAtWork) -> None:
    hami.cluster.nodes[0].containerd.restart()
    hami.cluster.wait_for(hami.cluster.nodes[0].is_ready, "node0 is Ready")
    hami.cluster.wait_for(lambda: hami.cluster.can_exec("works", at_work.space), "the kubelet reaches containerd")
    at_work.goes_on()
    at_work.books_are_right()


def test_the_api_server_is_away(hami: Hami, at_work: SlicesAtWork) -> None:
    hami.cluster.apiserver.stop()
    time.sleep(8)
    hami.cluster.apiserver.start()
    hami.cluster.wait_for(hami.cluster.nodes[0].is_ready, "node0 is Ready")
    at_work.goes_on()
    at_work.books_are_right()
