from __future__ import annotations

from datetime import datetime, timezone

import msgspec
import pytest

from cluster.scheduler.books import Refused
from cluster.scheduler.inventory import inventory, pod_state
from cluster.scheduler.metrics import Metrics
from hami_hub.core.explanation import no_room_from_json
from hami_hub.core.messages import why_no_node
from hami_hub.core.pods import PodUid, view_pod
from tests.unit.scheduler_objects import books, holder, node, pod

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def made():
    """One card that "a" has nearly all of; "b" and "c" wait; one node's list can't be read."""
    broken = node("node-x")
    broken["metadata"]["annotations"]["hami.io/node-nvidia-register"] = "[{"
    waiting = [
        pod("c", gpumem=99000, creationTimestamp="2026-01-01T00:00:02Z"),
        pod("b", gpumem=4000, creationTimestamp="2026-01-01T00:00:01Z"),
    ]
    return books([node(), broken], [holder("a", gpumem=12000), *waiting])


def plain(value) -> dict:
    return msgspec.json.decode(msgspec.json.encode(value))


def test_everything_is_told_in_the_form_that_the_hub_reads(made):
    told = plain(inventory(made, NOW))
    assert told["at"] == "2026-01-01T00:00:00Z"
    assert [(each["name"], each["ready"], bool(each["problem"])) for each in told["nodes"]] == [
        ("node-a", True, False),
        ("node-x", True, True),
    ]
    (card,) = told["nodes"][0]["cards"]
    assert card == {
        "uuid": "GPU-node-a-0", "index": 0, "model": "Tesla T4", "vram": 15360, "splitCount": 10, "healthy": True,
        "usedVram": 12000, "usedCores": 0, "slices": 1, "exclusive": False,
    }  # fmt: skip
    (held,) = told["slices"]
    assert (held["pod"], held["container"], held["shares"][0]["vram"], held["bound"]) == ("a", "main", 12000, True)
    assert [(each["pod"], each["place"], each["never"]) for each in told["queue"]] == [("b", 1, False), ("c", 2, True)]
    assert all(each["reason"].endswith(".") for each in told["queue"])


def test_the_last_word_to_kube_scheduler_is_what_the_person_reads(made):
    made.refused[PodUid("uid-b")] = Refused(0.0, "Your card is on another node.", False)
    assert pod_state(made, "jhub", "b").reason == "Your card is on another node."


@pytest.mark.parametrize(
    ("name", "state", "place", "of", "on", "never"),
    [
        ("a", "bound", None, None, "node-a", False),
        ("b", "waiting", 1, 2, None, False),
        ("c", "waiting", 2, 2, None, True),
        ("nobody", "unknown", None, None, None, False),
    ],
)
def test_where_one_pod_stands(made, name, state, place, of, on, never):
    told = pod_state(made, "jhub", name)
    assert (told.state, told.place, told.of, told.node, told.never) == (state, place, of, on, never)


def test_the_reason_is_told_in_parts_too_for_who_says_it_in_another_language(made):
    told = plain(pod_state(made, "jhub", "b"))
    assert why_no_node(no_room_from_json(told["why"])) == told["reason"]


def test_a_reserved_pod_is_told_with_its_node(made):
    view = view_pod(pod("b", gpumem=1000), made.rules)
    assert view is not None
    made.fleet.reserve(view, None, until=1.0)
    told = pod_state(made, "jhub", "b")
    assert (told.state, told.node) == ("reserved", "node-a")


async def test_the_metrics_page_counts_cards_and_slices(made):
    page = b"".join([piece async for piece in Metrics().exposition(made, [])]).decode()
    labels = 'node="node-a",device_uuid="GPU-node-a-0",device_index="0",device_type="Tesla T4"'
    assert f"hami_gpu_memory_limit_bytes{{{labels}}} {15360 * 2**20}\n" in page
    assert f"hami_gpu_memory_allocated_bytes{{{labels}}} {12000 * 2**20}\n" in page
    assert 'hami_vgpu_memory_allocated_bytes{namespace="jhub",node="node-a",pod="a",container="main"' in page
    assert "hami_scheduler_waiting_pods 2.0\n" in page
    assert 'hami_scheduler_nodes{state="problem"} 1.0\n' in page
    names = {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}
    assert len(names) == page.count("# TYPE")
