"""The openb trace: 1,213 GPU nodes and 8,152 pods of a production cluster, and how the published experiment uses it.

Files: `openb_node_list_gpu_node.csv` and `openb_pod_list_*.csv` of https://github.com/alibaba/clusterdata, folder
cluster-trace-gpu-v2023/csv, Apache-2.0, by Alibaba.  Not part of this repository.
"""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from pathlib import Path

MILLI = 1000  # of one card
NODES_FILE = "openb_node_list_gpu_node.csv"


@dataclass(frozen=True, slots=True)
class Machine:
    """A node.  CPU in 1/1000, memory in MiB."""

    name: str
    cpu: int
    memory: int
    cards: int
    model: str


@dataclass(frozen=True, slots=True)
class Job:
    """A pod: `cards` cards of which it wants `milli` thousandths each; none: CPU only.  `models` empty: any."""

    cpu: int
    memory: int
    cards: int
    milli: int
    models: tuple[str, ...]

    @property
    def asks(self) -> int:
        """Thousandths of cards in all."""
        return self.cards * self.milli


def read_machines(folder: Path) -> list[Machine]:
    """The nodes of the trace."""
    with (folder / NODES_FILE).open(newline="") as file:
        return [
            Machine(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            for row in csv.DictReader(file)
        ]


def read_jobs(folder: Path, variant: str) -> list[Job]:
    """The pods of `openb_pod_list_<variant>.csv`."""
    with (folder / f"openb_pod_list_{variant}.csv").open(newline="") as file:
        return [_job(row) for row in csv.DictReader(file)]


def arrivals(jobs: list[Job], capacity: int, seed: int) -> list[Job]:
    """The pods in the order in which they come: all of the trace and random ones again until they ask for 130 % of
    `capacity` (thousandths of cards), shuffled.
    """
    rng = random.Random(seed)  # noqa: S311 - an experiment that can be repeated
    coming = list(jobs)
    asked = sum(job.asks for job in coming)
    while asked * 100 < capacity * 130:
        job = rng.choice(jobs)
        coming.append(job)
        asked += job.asks
    rng.shuffle(coming)
    return coming


def _job(row: dict[str, str]) -> Job:
    cards = int(row["num_gpu"])
    return Job(
        cpu=int(row["cpu_milli"]),
        memory=int(row["memory_mib"]),
        cards=cards,
        milli=min(MILLI, int(row["gpu_milli"])) if cards == 1 else MILLI * bool(cards),
        models=tuple(filter(None, (row.get("gpu_spec") or "").split("|"))),
    )
