"""The table of `hami-hub smi`, letter by letter as nvidia-smi lays it out."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from hami_hub.cli.smi.table import render_list, render_table
from hami_hub.cli.smi.view import GpuView, ProcessView, Snapshot
from hami_hub.core.units import Mib

T4 = GpuView(
    index=0,
    uuid="GPU-0f1e2d3c-1111-2222-3333-444455556666",
    name="Tesla T4",
    bus_id="00000000:00:1E.0",
    memory_total=Mib(3000),
    memory_used=Mib(104),
    gpu_load=7,
    temperature=25,
    power=26.4,
    power_limit=70.0,
    performance=8,
    persistence=True,
    display=False,
    ecc_errors=0,
    compute_mode="Default",
)
SILENT = GpuView(index=11, uuid="GPU-x", name="NVIDIA RTX 6000 Ada Generation Workstation")


def snapshot(*gpus: GpuView, processes: tuple[ProcessView, ...] = ()) -> Snapshot:
    return Snapshot(
        version="0.1.0",
        driver="580.159.04",
        cuda="13.0",
        time=datetime(2026, 11, 9, 12, 30, 5, tzinfo=timezone.utc),
        gpus=gpus,
        processes=processes,
    )


def test_a_card_with_a_process() -> None:
    process = ProcessView(gpu=T4, pid=1234, name="python3", used=Mib(104))
    assert render_table(snapshot(T4, processes=(process,))).splitlines() == [
        "Mon Nov  9 12:30:05 2026",
        "+-----------------------------------------------------------------------------------------+",
        "| HAMi-SMI 0.1.0                    Driver Version: 580.159.04     CUDA Version: 13.0     |",
        "+-----------------------------------------+------------------------+----------------------+",
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|=========================================+========================+======================|",
        "|   0  Tesla T4                       On  |   00000000:00:1E.0 Off |                    0 |",
        "| N/A   25C    P8             26W /   70W |     104MiB /   3000MiB |      7%      Default |",
        "|                                         |                        |                  N/A |",
        "+-----------------------------------------+------------------------+----------------------+",
        "",
        "+-----------------------------------------------------------------------------------------+",
        "| Processes:                                                                              |",
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
        "|        ID   ID                                                               Usage      |",
        "|=========================================================================================|",
        "|    0   N/A  N/A            1234      C   python3                                 104MiB |",
        "+-----------------------------------------------------------------------------------------+",
    ]


def test_a_card_that_tells_nothing_keeps_the_layout() -> None:
    lines = render_table(snapshot(SILENT)).splitlines()
    assert lines[8:11] == [
        "|  11  NVIDIA RTX 6000 Ada Gene...   N/A  |                N/A N/A |                  N/A |",
        "| N/A   N/A   N/A             N/A /   N/A |        N/A /       N/A |     N/A          N/A |",
        "|                                         |                        |                  N/A |",
    ]
    assert "|  No running processes found                                                             |" in lines


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        pytest.param("python", "python", id="short"),
        pytest.param("/home/alice/venv/lib/python3.11/bin/python3", "...e/venv/lib/python3.11/bin/python3", id="long"),
    ],
)
def test_a_long_program_name_keeps_its_end(name: str, shown: str) -> None:
    process = ProcessView(gpu=T4, pid=1, name=name)
    row = render_table(snapshot(T4, processes=(process,))).splitlines()[-2]
    assert row == f"|    0   N/A  N/A               1      C   {shown:<36}       N/A |"


def test_every_line_is_as_wide_as_the_frame() -> None:
    processes = tuple(ProcessView(gpu=SILENT, pid=4194304, name="x" * n, kind="C+G", used=Mib(143771)) for n in (0, 99))
    lines = render_table(snapshot(T4, SILENT, processes=processes)).splitlines()
    assert {len(line) for line in lines[1:] if line} == {91}


def test_the_list_has_one_line_a_card() -> None:
    assert render_list(snapshot(T4, SILENT)) == (
        "GPU 0: Tesla T4 (UUID: GPU-0f1e2d3c-1111-2222-3333-444455556666)\n"
        "GPU 11: NVIDIA RTX 6000 Ada Generation Workstation (UUID: GPU-x)"
    )
