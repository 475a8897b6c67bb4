"""`--query-gpu`, `--query-compute-apps` and `--format`: nvidia-smi's answers, and plain words for what isn't there."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from hami_hub.cli.smi.query import (
    GPU_FIELDS,
    PROCESS_FIELDS,
    Format,
    QueryError,
    parse_format,
    query_gpus,
    query_processes,
)
from hami_hub.cli.smi.read import select
from hami_hub.cli.smi.view import GpuView, ProcessView, Snapshot
from hami_hub.core.units import Mib

FIRST = GpuView(
    index=0, uuid="GPU-a", name="Tesla T4", bus_id="00000000:00:1E.0", memory_total=Mib(4000), memory_used=Mib(104),
    gpu_load=3, temperature=25, power=26.456, persistence=True,
)  # fmt: skip
SECOND = GpuView(index=1, uuid="GPU-b", name="Tesla T4")
SNAPSHOT = Snapshot(
    version="0.1.0",
    driver="580.159.04",
    cuda="13.0",
    time=datetime(2026, 11, 9, 12, 30, 5, 7000, tzinfo=timezone.utc),
    gpus=(FIRST, SECOND),
    processes=(
        ProcessView(gpu=FIRST, pid=12, name="python", used=Mib(104)),
        ProcessView(gpu=SECOND, pid=13, name="Xorg", kind="G"),
    ),
)
BARE = Format(header=False, units=False)


@pytest.mark.parametrize(
    ("fields", "layout", "answer"),
    [
        pytest.param("uuid", Format(header=False), "GPU-a\nGPU-b", id="uuid-noheader"),
        pytest.param("memory.total", Format(), "memory.total [MiB]\n4000 MiB\n[N/A]", id="memory-with-header"),
        pytest.param("memory.total", Format(units=False), "memory.total [MiB]\n4000\n[N/A]", id="memory-nounits"),
        pytest.param("name, index", BARE, "Tesla T4, 0\nTesla T4, 1", id="two-fields-and-a-space"),
        pytest.param("gpu_name,gpu_uuid", BARE, "Tesla T4, GPU-a\nTesla T4, GPU-b", id="second-names"),
        pytest.param("gpu_uuid", Format(), "gpu_uuid\nGPU-a\nGPU-b", id="the-header-says-what-was-asked"),
        pytest.param("memory.free,memory.used", BARE, "3896, 104\n[N/A], [N/A]", id="free"),
        pytest.param("utilization.gpu", Format(), "utilization.gpu [%]\n3 %\n[N/A]", id="load"),
        pytest.param("temperature.gpu", Format(), "temperature.gpu\n25\n[N/A]", id="temperature"),
        pytest.param("driver_version,count", BARE, "580.159.04, 2\n580.159.04, 2", id="of-the-machine"),
        pytest.param("power.draw,persistence_mode", BARE, "26.46, Enabled\n[N/A], [N/A]", id="power"),
        pytest.param("timestamp", BARE, "2026/11/09 12:30:05.007\n2026/11/09 12:30:05.007", id="time"),
    ],
)
def test_cards_are_answered_field_by_field(fields: str, layout: Format, answer: str) -> None:
    assert query_gpus(SNAPSHOT, fields, layout) == answer


def test_only_processes_that_compute_are_listed() -> None:
    assert query_processes(SNAPSHOT, "pid,process_name,used_memory", Format()) == (
        "pid, process_name, used_memory [MiB]\n12, python, 104 MiB"
    )
    assert query_processes(SNAPSHOT, "gpu_uuid,name", BARE) == "GPU-a, python"


def test_every_field_has_an_answer_for_a_card_that_tells_nothing() -> None:
    silent = replace(SNAPSHOT, gpus=(SECOND,), processes=(ProcessView(gpu=SECOND, pid=1, name=""),))
    assert len(query_gpus(silent, ",".join(GPU_FIELDS), BARE).split(", ")) == len(GPU_FIELDS)
    assert len(query_processes(silent, ",".join(PROCESS_FIELDS), BARE).split(", ")) == len(PROCESS_FIELDS)


def test_an_unknown_field_is_told_with_those_there_are() -> None:
    with pytest.raises(QueryError, match=r'^"memory" is not a field that can be asked for\. There are: timestamp, .*'):
        query_gpus(SNAPSHOT, "uuid,memory", Format())
    with pytest.raises(QueryError, match="No field is named"):
        query_gpus(SNAPSHOT, " , ", Format())


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("csv", Format()),
        ("csv,noheader", Format(header=False)),
        ("noheader, nounits, csv", Format(header=False, units=False)),
    ],
)
def test_formats(text: str, layout: Format) -> None:
    assert parse_format(text) == layout


@pytest.mark.parametrize(
    ("text", "words"), [("json", '"json" is not a format'), ("noheader", "lacks csv"), ("", "lacks csv")]
)
def test_a_wrong_format_is_told_with_a_right_one(text: str, words: str) -> None:
    with pytest.raises(QueryError, match=f"{words}.*csv,noheader,nounits"):
        parse_format(text)


@pytest.mark.parametrize("wanted", ["0", "GPU-a", "gpu-A", "00000000:00:1e.0"])
def test_a_card_is_selected_with_its_processes(wanted: str) -> None:
    chosen = select(SNAPSHOT, wanted)
    assert chosen is not None
    assert [gpu.uuid for gpu in chosen.gpus] == ["GPU-a"]
    assert [process.pid for process in chosen.processes] == [12]


def test_cards_are_selected_by_a_list_in_their_own_order() -> None:
    chosen = select(SNAPSHOT, "GPU-b, 0")
    assert chosen is not None
    assert [gpu.index for gpu in chosen.gpus] == [0, 1]


@pytest.mark.parametrize("wanted", ["2", "GPU-", "", "x", "0,", "0,7"])
def test_no_card_of_that_name(wanted: str) -> None:
    assert select(SNAPSHOT, wanted) is None
