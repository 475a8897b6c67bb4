"""What slices hold beside what is in use, and the figures that are shown of both."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from cluster.deviceplugin.health import Condition, Reading
from cluster.deviceplugin.metrics import CountedOutcomes, NodeCollector, Sight
from cluster.deviceplugin.slices import NodeSlices
from cluster.deviceplugin.slots import offer_slots
from cluster.deviceplugin.usage import Suspicion, read_uses, unaccounted
from hami_hub.core.slices import CardShare, Placement
from hami_hub.core.units import BYTES_PER_MIB, Mib, Percent

from .plugin_parts import CARDS, INDICES, NODE, OWNER, make_slices, placed
from .test_slicepage import fill_slot

WHOLE = Placement((CardShare(CARDS[0].uuid, CARDS[0].vram, Percent(0), exclusive=True, whole=True),))
LABELS = {
    "node": NODE,
    "namespace": "default",
    "pod": "alice",
    "container": "main",
    "vdevice_index": "0",
    "device_uuid": "GPU-0",
}


def conditions(used: int | None) -> tuple[Condition, ...]:
    return tuple(Condition(Reading(card, used=used, busy=40)) for card in CARDS)


def holding(folder: Path, mib: int, placement: Placement | None = None) -> NodeSlices:
    """One slice that holds so much, by a process of another PID namespace."""
    slices = make_slices(folder)
    slices.prepare(OWNER, ["slot-0001"], placement or placed("GPU-0", vram=4000, cores=25), INDICES)
    fill_slot(slices.directory(OWNER), owner=1 << 32, held=mib * BYTES_PER_MIB)
    return slices


def test_what_no_slice_answers_for_is_the_difference(tmp_path: Path) -> None:
    uses = read_uses(holding(tmp_path, 1000))
    assert unaccounted(conditions(1500), uses) == {"GPU-0": 500, "GPU-1": 1500}
    assert unaccounted(conditions(900), uses) == {"GPU-0": 0, "GPU-1": 900}
    assert unaccounted(conditions(None), uses) == {}


def test_who_has_a_whole_card_keeps_no_account(tmp_path: Path) -> None:
    uses = read_uses(holding(tmp_path, 0, WHOLE))
    assert unaccounted(conditions(9000), uses) == {"GPU-1": 9000}


def test_a_slice_whose_page_is_broken_is_left_out(tmp_path: Path) -> None:
    slices = holding(tmp_path, 10)
    (slices.directory(OWNER) / "usage").write_bytes(b"rubbish")
    assert read_uses(slices) == ()


def test_it_is_told_once_when_it_stays_and_again_when_it_comes_back() -> None:
    suspicion = Suspicion(512)
    looks = [600, 600, 600, 600, 100, 600, 600, 600]
    told = [suspicion.see({"GPU-0": Mib(amount)}) for amount in looks]
    assert [len(each) for each in told] == [0, 0, 1, 0, 0, 0, 0, 1]
    assert "600 MiB of the card GPU-0" in told[2][0]


def test_a_threshold_of_zero_is_silent() -> None:
    suspicion = Suspicion(0)
    assert not any(suspicion.see({"GPU-0": Mib(10_000)}) for _ in range(9))


def shown(slices: NodeSlices, *, used: int = 1500) -> CollectorRegistry:
    registry = CollectorRegistry()
    uses = read_uses(slices)
    sight = Sight(
        conditions(used),
        uses,
        dict(unaccounted(conditions(used), uses)),
        offer_slots(total=20, ill=10),
        registered=True,
    )
    registry.register(NodeCollector(NODE, lambda: sight))
    return registry


def test_figures_have_hamis_names_and_prometheus_units(tmp_path: Path) -> None:
    registry = shown(holding(tmp_path, 1000))
    card = {"node": NODE, "device_index": "0", "device_uuid": "GPU-0", "device_type": "Tesla T4"}
    assert registry.get_sample_value("hami_vgpu_memory_used_bytes", LABELS) == 1000 * BYTES_PER_MIB
    assert registry.get_sample_value("hami_vgpu_memory_limit_bytes", LABELS) == 4000 * BYTES_PER_MIB
    assert registry.get_sample_value("hami_vgpu_core_limit_ratio", LABELS) == 0.25
    assert registry.get_sample_value("hami_host_gpu_memory_used_bytes", card) == 1500 * BYTES_PER_MIB
    assert registry.get_sample_value("hami_host_gpu_utilization_ratio", card) == 0.4
    assert registry.get_sample_value("hami_host_gpu_memory_unaccounted_bytes", card) == 500 * BYTES_PER_MIB
    assert registry.get_sample_value("hami_slots", {"node": NODE, "state": "healthy"}) == 10
    assert registry.get_sample_value("hami_registered", {"node": NODE}) == 1


def test_a_slice_is_shown_from_its_start(tmp_path: Path) -> None:
    registry = shown(holding(tmp_path, 0))
    for name in ("memory_used_bytes", "memory_peak_bytes", "refusals_total", "throttled_seconds_total"):
        assert registry.get_sample_value(f"hami_vgpu_{name}", LABELS) == 0


def test_a_whole_cards_slice_holds_what_the_card_has_in_use(tmp_path: Path) -> None:
    registry = shown(holding(tmp_path, 0, WHOLE), used=7000)
    assert registry.get_sample_value("hami_vgpu_memory_used_bytes", LABELS) == 7000 * BYTES_PER_MIB


def test_starts_are_counted() -> None:
    registry = CollectorRegistry()
    outcomes = CountedOutcomes(registry)
    outcomes.started(0.004)
    outcomes.refused("not-placed")
    outcomes.xid("GPU-0", 79)
    assert registry.get_sample_value("hami_container_start_seconds_count") == 1
    assert registry.get_sample_value("hami_container_start_refusals_total", {"rule": "not-placed"}) == 1
    assert registry.get_sample_value("hami_card_xids_total", {"device_uuid": "GPU-0", "xid": "79"}) == 1
