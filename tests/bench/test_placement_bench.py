"""The replay: it reads the trace's files, asks until 130 %, and counts what is allocated."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.placement.filter import time_filter
from bench.placement.replay import POLICIES, Policy, Replay
from bench.placement.run import main
from bench.placement.trace import MILLI, Job, Machine, arrivals, read_jobs, read_machines

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,32000,1000,2,T4\nn1,32000,1000,1,P100\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "a,1000,10,1,460,,LS,Running,0,1,0\n"
    "b,2000,20,2,1000,T4|P100,LS,Running,0,1,0\n"
    "c,3000,30,0,0,,LS,Running,0,1,0\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES)
    for variant in ("default", "gpushare100", "cpu250"):
        (tmp_path / f"openb_pod_list_{variant}.csv").write_text(PODS)
    return tmp_path


def test_the_files_are_read(folder: Path) -> None:
    assert read_machines(folder)[1] == Machine("n1", 32000, 1000, 1, "P100")
    assert read_jobs(folder, "default") == [
        Job(1000, 10, 1, 460, ()),
        Job(2000, 20, 2, 1000, ("T4", "P100")),
        Job(3000, 30, 0, 0, ()),
    ]


def test_pods_come_until_they_ask_for_130_percent(folder: Path) -> None:
    jobs = read_jobs(folder, "default")
    coming = arrivals(jobs, 20 * MILLI, seed=42)
    assert 26_000 <= sum(job.asks for job in coming) < 28_000
    assert coming == arrivals(jobs, 20 * MILLI, seed=42) != arrivals(jobs, 20 * MILLI, seed=43)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_what_is_allocated_is_counted(policy: Policy) -> None:
    machines = [Machine("n0", 8000, 100, 2, "T4")]
    jobs = [Job(1000, 1, 1, 500, ()), Job(1000, 1, 1, 1000, ()), Job(1000, 1, 1, 600, ()), Job(1000, 1, 0, 0, ())]
    filled = Replay(machines, jobs, policy).run(jobs)
    assert filled.at_100 == filled.at_130 == 75.0


def test_cpu_memory_and_model_keep_pods_out() -> None:
    machines = [Machine("n0", 1000, 10, 4, "T4")]
    jobs = [
        Job(2000, 1, 1, 1000, ()),
        Job(1, 11, 1, 1000, ()),
        Job(1, 1, 1, 1000, ("P100",)),
        Job(1, 1, 1, 1000, ("T4",)),
    ]
    assert Replay(machines, jobs, POLICIES[0]).run(jobs).at_100 == 25.0


def test_it_writes_a_report_and_says_if_the_goal_is_missed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.placement.run.SIZES", ((3, 5),))
    out = folder / "out"
    command = [str(folder), "--out", str(out), "--seeds", "1", "--others", "1"]
    assert main(command) == 0
    monkeypatch.setattr("bench.placement.run.GOAL", 99)
    assert main(command) == 1
    report = (out / "report.md").read_text()
    assert all(policy.name in report for policy in POLICIES)
    assert "five profiles" in report
    assert "default seed 42 FGD+:" in (out / "raw.txt").read_text()


def test_every_kind_of_request_is_timed() -> None:
    lines = time_filter(3, 10)
    assert [line.what for line in lines][1:] == [
        "gpumem 3000, gpucores 10", "five profiles", "every amount another", "2 cards", "no room",
    ]  # fmt: skip
