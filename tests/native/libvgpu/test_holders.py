"""Physical memory stays charged as long as anything holds it, and no longer: multicast objects, descriptors, arrays."""

from __future__ import annotations

import guest_calls
import pytest

from .conftest import Machine

LIMIT = 1000
CONTEXT = 104
OUT_OF_MEMORY = guest_calls.OUT_OF_MEMORY


@pytest.mark.parametrize("end", [("destroy_array(a)", "release(h)"), ("release(h)", "destroy_array(a)")])
def test_what_is_bound_to_an_array_goes_with_its_handle(machine: Machine, end: tuple[str, str]):
    """On the card, bound or not; and so in the ledger."""
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); h = tiles(500); a = sparse_array(500); bind(a, 500, h)")
    assert place.used() == CONTEXT + 500 == machine.true_use(guest.pid)
    assert guest.refused("alloc(400)") == OUT_OF_MEMORY
    for step in end:
        guest(step)
        assert place.used() == machine.true_use(guest.pid)
    assert place.used() == CONTEXT
    assert place.view().cards[0].peak == CONTEXT + 500
    guest("alloc(890)")


def test_a_texture_that_streams_takes_nothing_more(machine: Machine):
    """The same part of an array gets other memory again and again."""
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); a = sparse_array(100); old = tiles(100)")
    for _ in range(20):
        guest("h = tiles(100); bind(a, 100, 0); bind(a, 100, h); release(old); old = h")
    assert place.used() == CONTEXT + 100 == machine.true_use(guest.pid)


@pytest.fixture
def large(make_machine) -> Machine:
    """A card that has multicast objects."""
    return make_machine(profile="h200")


LARGE_CONTEXT = 518


@pytest.mark.parametrize(
    "bind", [f"{how}(500, '{call}{version}')" for how, call in
             (("bind_handle", "cuMulticastBindMem"), ("bind_address", "cuMulticastBindAddr"))
             for version in ("", "_v2")]
)  # fmt: skip
@pytest.mark.parametrize("end", ["unbind(team, 500)", "release(team)"])
def test_a_multicast_object_keeps_what_is_bound_to_it(large: Machine, bind: str, end: str):
    limit = LARGE_CONTEXT + 900
    place = large.slice(limit)
    guest = place.guest()
    guest(f"start(); team = {bind}")
    assert place.used() == LARGE_CONTEXT + 500 == large.true_use(guest.pid)
    assert guest.refused("bind_handle(500)") == OUT_OF_MEMORY
    assert guest.refused("alloc(402)") == OUT_OF_MEMORY
    assert large.true_use(guest.pid) <= limit
    guest(end)
    assert place.used() == LARGE_CONTEXT
    guest("alloc(900)")


def test_an_exported_descriptor_stays_charged(machine: Machine):
    """Also when it has become external memory, of which the driver's figure says nothing here."""
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); d = exported(500)")
    assert place.used() == CONTEXT + 500
    guest("e = import_external(d, 500)")
    assert guest.refused("alloc(400)") == OUT_OF_MEMORY
    guest("alloc(390)")


IMPORTS = {
    "cuMemImportFromShareableHandle": "cu('cuMemImportFromShareableHandle', byref(h), c_void_p(d), c_int(1))",
    "cuImportExternalMemory": "import_external(d, 100)",
}


@pytest.mark.parametrize("call", IMPORTS)
def test_an_import_is_looked_at_in_the_call(machine: Machine, call: str):
    """What the driver's figure shows with it must not wait for the next allocation: neighbours count on the ledger."""
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); h = c_uint64(); d = exported(100)")
    assert place.used() == CONTEXT + 100
    guest("escape(200)")  # stands for the import: the simulated driver shows it for nobody but its maker
    guest(IMPORTS[call])
    assert place.used() == CONTEXT + 100 + 200


def test_what_a_dead_maker_leaves_to_an_importer_stays_charged(machine: Machine):
    """The importer does nothing, and the driver moves the memory into its figure."""
    place = machine.slice(LIMIT)
    maker, importer, third = place.guest(), place.guest(), place.guest()
    maker("start(); b = (ctypes.c_char * 64)(); cu('cuIpcGetMemHandle', b, alloc(400))")
    third("start()")
    importer(f"start(); open_ipc({maker('list(bytes(b))')})")
    assert place.used() == 3 * CONTEXT + 400
    importer("alloc(100)")
    maker.kill()
    importer("escape(400)")  # as the real driver does, unasked
    assert third.refused("alloc(300)") == OUT_OF_MEMORY
    assert place.used() == 2 * CONTEXT + 100 + 400
    third("alloc(280)")
    # its own look finds the same
    assert importer("info()") == [LIMIT - 2 * CONTEXT - 100 - 400 - 280, LIMIT]


@pytest.fixture
def pair(make_machine) -> Machine:
    """Two cards that reach each other's memory."""
    return make_machine(cards=2, profile="a100-40gb")


def test_peer_access_lifts_no_limit(pair: Machine):
    """Neither of the two, whoever uses the memory."""
    place = pair.slice(2000, 1000)
    guest = place.guest()
    guest("init(); one = primary(1); zero = primary(0); cu('cuCtxEnablePeerAccess', one, c_uint(0))")
    used = place.used(1)
    guest("p = new_pool(1); let_reach(p, 0)")
    fits = (1000 - used) // 128
    guest("pool = lambda: p; ways['far'] = lambda mib: _async('cuMemAllocFromPoolAsync', mib, pool=p)")
    assert guest("take_until_refused('far', 100)") in (fits, fits + 1)
    assert pair.true_use(guest.pid, card=1) <= 1000
    assert place.used(1) == pair.true_use(guest.pid, card=1)
    assert place.used(0) == used == pair.true_use(guest.pid, card=0)


def test_a_card_that_the_slice_does_not_name_stays_closed_to_its_peer(pair: Machine):
    place = pair.slice(1000, cards=[0])
    guest = place.guest()
    guest("start()")
    assert guest.refused("primary(1)") == OUT_OF_MEMORY
    assert guest.refused("p = new_pool(1); let_reach(p, 0); _async('cuMemAllocFromPoolAsync', 100, pool=p)")
    assert guest.refused("physical(100, device=1)") == OUT_OF_MEMORY
    assert pair.true_use(guest.pid, card=1) == 0
