"""A kernel takes VRAM the first time in each context: then it is seen, and never asked about again."""

from __future__ import annotations

import pytest
from guest_calls import OUT_OF_MEMORY

from .conftest import Guest, Machine

LIMIT = 1000
CONTEXT = 104
USES = {"cuKernelGetFunction": "get_function(k)", "cuLaunchKernel": "launch(k)"}


def lists_asked_by(guest: Guest, code: str) -> int:
    before = guest("lists_asked()")
    guest(code)
    return guest("lists_asked()") - before


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_only_the_first_use_in_a_context_asks_nvml(machine: Machine, use: str):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); first = c_void_p(); cu('cuCtxGetCurrent', byref(first)); k = kernel_of(library(100))")
    assert lists_asked_by(guest, use) > 0
    assert lists_asked_by(guest, f"[{use} for _ in range(50)]") == 0
    guest("second = c_void_p(); cu('cuCtxCreate_v2', byref(second), c_uint(0), c_int(0))")
    assert lists_asked_by(guest, use) > 0
    assert place.used() == 2 * (CONTEXT + 100) == machine.true_use(guest.pid)
    switch = f"[(cu('cuCtxSetCurrent', c), {use}) for _ in range(20) for c in (first, second)]"
    assert lists_asked_by(guest, switch) == 0


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_another_context_loads_it_in_our_sight(machine: Machine, use: str):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest(f"start(); k = kernel_of(library(300)); {use}")
    guest("second = c_void_p(); cu('cuCtxCreate_v2', byref(second), c_uint(0), c_int(0)); alloc(250)")
    assert guest.refused(use) == OUT_OF_MEMORY


def test_a_context_made_anew_has_nothing_loaded(machine: Machine):
    """The primary context comes back with the same handle, and without its kernels."""
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); k = kernel_of(library(300)); launch(k)")
    guest("cu('cuDevicePrimaryCtxReset_v2', c_int(0)); context(); alloc(700)")
    assert guest.refused("launch(k)") == OUT_OF_MEMORY


def test_an_unloaded_library_is_forgotten(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start()")
    for _ in range(3):
        guest("lib = library(300); k = kernel_of(lib)")
        assert lists_asked_by(guest, "launch(k)") > 0
        assert place.used() == CONTEXT + 300
        guest("cu('cuLibraryUnload', lib)")
        assert place.used() == CONTEXT
