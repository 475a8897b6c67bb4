"""Experiments 15 and 16: priority, the core policy and the OOM killer, from resources and from environment."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cluster.hami import CORES, COUNT, MEMORY, PRIORITY, Hami
from tests.cluster.rig.images import REPOSITORY

READ = """
import json
from hami_hub.slicepage import find_slice, read_slice
card = read_slice(find_slice()).cards[0]
print(json.dumps({"cores": card.cores, "policy": card.policy.value, "priority": int(card.priority)}))
"""

# VRAM that no entry point of the driver takes: it is known only afterwards.
TAKE_TOO_MUCH = f"""
import sys
sys.path.insert(0, {str(REPOSITORY / "tests/native/libvgpu")!r})
from guest_calls import CudaError, escape, start
from guest_ways import alloc
start()
escape(1200)
try:
    alloc(10)
except CudaError:
    print("refused")
"""

# Keeps the card busy with kernels of 2 ms, some ahead since the machine may be busy too, and says which share of its
# time it got in 3 s.  With "beside" these are 3 s in which another works on the card, and then it goes on: the other's
# may not be over.
SPIN = f"""
import sys
sys.path.insert(0, {str(REPOSITORY / "tests/native/simgpu")!r})
import guest
guest.init()
kernel = guest.spinner()
def now(): return guest.cuda.hamisim_clock(), guest.cuda.hamisim_busy_for(0, 0)
def others(): return guest.cuda.hamisim_busy(0) - now()[1]
def work():
    for _ in range(5):
        guest.spin(kernel, 2_000_000)
    guest.cu("CtxSynchronize")
    return now()
def work_for(seconds):
    begin = at = now()
    while at[0] - begin[0] < seconds * 1e9:
        at = work()
    return round(100 * (at[1] - begin[1]) / (at[0] - begin[0]))
before = others()
while sys.argv[1:] == ["beside"] and others() < before + 5_000_000:
    work()
print(work_for(3), flush=True)
if sys.argv[1:] == ["beside"]:
    work_for(3)
"""


def share(hami: Hami, pod: str, namespace: str, *how: str) -> int:
    """Percent of the card that a busy pod gets.  The machine may be busy too: what follows asks only for the gist."""
    got = int(hami.exec(pod, "python", "-c", SPIN, *how, namespace=namespace))
    print(f"\n{pod}: {got} % of the card")
    return got


def page(hami: Hami, pod: str, namespace: str) -> dict[str, Any]:
    return dict(json.loads(hami.python(pod, READ, namespace=namespace)))


@pytest.mark.parametrize(
    ("limits", "expected"), [({}, 1), ({PRIORITY: 0}, 0), ({PRIORITY: 1}, 1)], ids=["none", "high", "low"]
)
def test_experiment_15_priority(hami: Hami, space: str, limits: dict[str, int], expected: int) -> None:
    hami.pod("p", {COUNT: 1, MEMORY: 1000, CORES: 30, **limits}, namespace=space)
    assert hami.slices("p", space)["main"]["priority"] == expected
    assert page(hami, "p", space) == {"cores": 30, "policy": "default", "priority": expected}


def test_experiment_15_high_priority_goes_first_and_is_not_held_to_its_cores(hami: Hami, space: str) -> None:
    for name, priority in (("high", 0), ("low", 1)):
        hami.pod(name, {COUNT: 1, MEMORY: 1000, CORES: 30, PRIORITY: priority}, namespace=space)
    with ThreadPoolExecutor() as pool:
        high, low = pool.map(lambda name: share(hami, name, space, "beside"), ("high", "low"))
    assert high > 40
    assert high > low


@pytest.mark.parametrize("policy", ["default", "force", "disable"])
def test_experiment_16_core_policy(hami: Hami, space: str, policy: str) -> None:
    env = [{"name": "GPU_CORE_UTILIZATION_POLICY", "value": policy}]
    hami.pod("p", {COUNT: 1, MEMORY: 1000, CORES: 30}, namespace=space, container={"env": env})
    assert hami.slices("p", space)["main"]["policy"] == policy
    assert page(hami, "p", space)["policy"] == policy
    got = share(hami, "p", space)
    assert got < 45 if policy == "force" else got > 50


@pytest.mark.parametrize("value", ["true", "false"])
def test_experiment_16_oom_killer(hami: Hami, space: str, value: str) -> None:
    env = [{"name": "ACTIVE_OOM_KILLER", "value": value}]
    hami.pod("p", {COUNT: 1, MEMORY: 1000}, namespace=space, container={"env": env})
    assert hami.slices("p", space)["main"]["oomKiller"] is (value == "true")
    result = hami.cluster.kubectl_run("exec", "-n", space, "p", "--", "python", "-c", TAKE_TOO_MUCH)
    if value == "true":
        assert "hami: This process is ended, because it took its slice to" in result.stderr
        assert "exit code 137" in result.stderr
    else:
        assert (result.returncode, result.stdout) == (0, "refused\n"), result.stderr
    assert hami.exec("p", "echo", "the others live on", namespace=space) == "the others live on\n"
