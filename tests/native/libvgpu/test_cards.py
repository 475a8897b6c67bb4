"""Several cards: the slice's are told by UUID, whatever CUDA_VISIBLE_DEVICES says, and the others can't be used."""

from __future__ import annotations

import pytest
from guest_calls import NO_DEVICE, NOT_INITIALIZED, OUT_OF_MEMORY

from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CardShare, Placement
from hami_hub.core.units import Mib, Percent
from hami_hub.slicepage import create_slice

from .conftest import T4_MIB, Machine, Slice


@pytest.fixture
def machine(make_machine) -> Machine:
    """Three cards."""
    return make_machine(cards=3)


def visible(uuids: list[str], form: str) -> str:
    """CUDA_VISIBLE_DEVICES for the cards 2 and 0, in that order."""
    return {"index": "2,0", "uuid": f"{uuids[2]},{uuids[0]}", "prefix": f"{uuids[2][:12]},{uuids[0][:12]}"}[form]


@pytest.mark.parametrize("form", ["index", "uuid", "prefix"])
def test_limits_follow_the_card(machine: Machine, form: str):
    place = machine.slice(1000, 2000, cards=[0, 2])
    guest = place.guest(CUDA_VISIBLE_DEVICES=visible(place.machine.uuids(), form))
    guest("init()")
    assert guest("[total_mem(0), total_mem(1)]") == [2000, 1000]
    for device, mib in ((0, 2000), (1, 1000)):
        guest(f"context({device}); alloc({mib - 104})")
        assert guest("info()") == [0, mib]
        assert guest.refused("alloc_bytes(1)") == OUT_OF_MEMORY
    assert [place.used(0), place.used(1)] == [1000, 2000]


def test_a_card_of_somebody_else_gives_nothing(machine: Machine):
    guest = machine.slice(1000, cards=[1]).guest()
    guest("init()")
    assert guest("[total_mem(i) for i in range(3)]") == [0, 1000, 0]
    for device in (0, 2):
        assert guest.refused(f"context({device})") == OUT_OF_MEMORY
        assert guest.refused(f"c = c_void_p(); cu('cuCtxCreate_v2', byref(c), c_uint(0), c_int({device}))") == 2
        assert guest.refused(f"physical(2, device={device})") == OUT_OF_MEMORY
    guest("context(1); alloc(800)")


def test_a_whole_card_is_no_way_to_another(machine: Machine):
    guest = machine.slice(T4_MIB, cards=[0], whole=True).guest()
    guest("start(0); alloc(14000)")
    assert guest.refused("context(1)") == OUT_OF_MEMORY


def test_a_slice_of_no_card_can_use_none(machine: Machine):
    guest = machine.slice().guest()
    assert guest.refused("init()") == NO_DEVICE
    assert guest.refused("context(0)") == NOT_INITIALIZED
    assert guest("nvml_uuids()") == []


def test_nvml_shows_the_slices_cards_only(machine: Machine):
    uuids = machine.uuids()
    guest = machine.slice(1000, 2000, cards=[2, 1]).guest()
    assert guest("nvml_uuids()") == uuids[1:]
    assert guest("[nvml_memory(i)[0] for i in range(2)]") == [2000, 1000]
    assert guest("[nvml().nvmlDeviceGetIndex(nvml().nvmlDeviceGetHandleByIndex(i)) for i in range(2)]") == [0, 1]
    assert "InvalidArgument" in guest_error(guest, "nvml().nvmlDeviceGetHandleByIndex(2)")
    assert "NotFound" in guest_error(guest, f"nvml().nvmlDeviceGetHandleByUUID({uuids[0]!r})")
    guest(f"nvml().nvmlDeviceGetHandleByUUID({uuids[1]!r})")
    pci = machine.outsider()("nvml().nvmlDeviceGetPciInfo(nvml().nvmlDeviceGetHandleByIndex(0)).busId")
    assert "NotFound" in guest_error(guest, f"nvml().nvmlDeviceGetHandleByPciBusId({pci!r})")


def guest_error(guest, code: str) -> str:
    try:
        guest(code)
    except Exception as error:
        return str(error)
    return ""


def test_pools_and_graphs_are_charged_to_their_card(machine: Machine):
    place = machine.slice(1000, 1000, 1000)
    guest = place.guest()
    guest("init(); context(2); context(1)")
    guest("p = c_uint64(); cu('cuMemAllocFromPoolAsync', byref(p), c_size_t(100 * MIB), new_pool(2), c_void_p(0))")
    assert [place.used(i) for i in range(3)] == [0, 104, 104 + 128]
    guest("cu('cuMemAllocAsync', byref(p), c_size_t(100 * MIB), c_void_p(0))")
    assert [place.used(i) for i in range(3)] == [0, 104 + 128, 104 + 128]


def test_a_thread_without_a_context_is_charged_by_location(machine: Machine):
    place = machine.slice(1000, 1000)
    guest = place.guest()
    guest("init(); h = physical(500, device=1)")
    assert [place.used(0), place.used(1)] == [0, 500]
    assert guest.refused("physical(600, device=1)") == OUT_OF_MEMORY
    guest("physical(900, device=0)")


@pytest.mark.parametrize("order", ["7,6,5,4,3,2,1,0", "3,1", "5"])
def test_eight_cards(make_machine, order: str):
    machine = make_machine(cards=8)
    limits = [500 + 100 * card for card in range(8)]
    place = machine.slice(*limits)
    guest = place.guest(CUDA_VISIBLE_DEVICES=order)
    guest("init()")
    for device, card in enumerate(map(int, order.split(","))):
        guest(f"context({device})")
        assert guest("info()") == [limits[card] - 104, limits[card]]
        guest(f"alloc({limits[card] - 110})")
        assert guest.refused("alloc(10)") == OUT_OF_MEMORY
        assert place.used(card) == limits[card] - 6
    assert sum(place.used(card) for card in range(8)) == sum(limits[int(c)] - 6 for c in order.split(","))


def test_as_many_cards_as_a_page_has(make_machine):
    machine = make_machine(cards=16)
    place = machine.slice(*[300] * 16)
    guest = place.guest()
    guest("init(); context(15)")
    assert guest.refused("alloc(200)") == OUT_OF_MEMORY
    assert [place.used(card) for card in (0, 14, 15)] == [0, 0, 104]


def test_a_mig_device_is_told_by_its_uuid(machine: Machine):
    """The driver names the device that it shows by bytes, and NVML by `MIG-` before them."""
    uuids = ["MIG-" + machine.uuids()[1].removeprefix("GPU-")]
    directory = machine.folder / "mig"
    create_slice(directory, name="mig", placement=Placement((CardShare(CardUuid(uuids[0]), Mib(1000), Percent(0)),)))
    place = Slice(machine, directory, uuids)
    guest = place.guest()
    guest("init()")
    assert guest("[total_mem(i) for i in range(3)]") == [0, 1000, 0]
    assert guest.refused("context(0)") == OUT_OF_MEMORY
    # NVML has no handle by that name here, so the first context is taken for the largest there is, and what a module
    # takes is seen by the card's own use
    guest("context(1); alloc(300)")
    assert place.used() == 512 + 300
    assert guest.refused("take('cuModuleLoadData', 200)") == OUT_OF_MEMORY
    guest("take('cuModuleLoadData', 100)")
    assert place.used() == 512 + 400
    assert machine.true_use(guest.pid, 1) == 104 + 400


def test_green_contexts_live_in_the_primary_one(machine: Machine):
    place = machine.slice(1000)
    guest = place.guest()
    guest("init(); g = green()")
    assert place.used() == machine.true_use(guest.pid) == 104 + 2
    guest("use_green(g); p = alloc(500)")
    assert guest.refused("alloc(500)") == OUT_OF_MEMORY
    guest("h = green()")
    assert place.used() == machine.true_use(guest.pid) == 104 + 2 * 2 + 500
    guest("end_green(h); context(); end_green(g)")
    # what was allocated in it stays with the primary context
    assert place.used() == machine.true_use(guest.pid) == 104 + 500
    guest("free(p)")
    assert place.used() == machine.true_use(guest.pid) == 104


def test_the_last_green_context_takes_everything_with_it(machine: Machine):
    place = machine.slice(1000)
    guest = place.guest()
    guest("init(); g = green(); use_green(g); alloc(500); end_green(g)")
    assert place.used() == machine.true_use(guest.pid) == 0
    guest("start(); alloc(800)")


def test_a_green_context_that_does_not_fit_is_refused(machine: Machine):
    place = machine.slice(1000)
    guest, other = place.guest(), place.guest()
    guest("start(); alloc(896)")
    assert guest.refused("green()") == OUT_OF_MEMORY
    assert other.refused("init(); green()") == OUT_OF_MEMORY
    assert place.used() == machine.true_use(guest.pid) == 1000
    assert machine.true_use(other.pid) == 0


def test_a_sparse_array_takes_nothing_by_itself(machine: Machine):
    place = machine.slice(1000)
    guest = place.guest()
    guest("start(); h = c_void_p(); d = Array3dDescriptor(4096, 4096, 16, FLOAT, 4, 0x40)")
    guest("cu('cuArray3DCreate_v2', byref(h), byref(d))")
    assert place.used() == machine.true_use(guest.pid) == 104
