"""CUDA_VISIBLE_DEVICES chooses and orders what the driver shows; NVML shows all."""

from __future__ import annotations

import uuid

import pytest

from .conftest import Machine


@pytest.fixture
def cards(machine: Machine) -> list[str]:
    """UUIDs of the four cards, as NVML writes them."""
    machine.environment["HAMI_SIM_CARDS"] = "4"
    uuids = [f"GPU-{uuid.UUID(u)}" for u in machine.guest()("uuids()")]
    assert len(set(uuids)) == 4
    return uuids


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("0,1,2,3", [0, 1, 2, 3]),
        ("2", [2]),
        ("3,1", [3, 1]),
        ("{1}", [1]),
        ("{3},{0}", [3, 0]),
        ("{2:10}", [2]),  # the beginning of a UUID
        ("{1},0", [1, 0]),
        (" 1 , 2 ", [1, 2]),
        ("1,9,2", [1]),  # ends at the first that names none
        ("0,-1,2", [0]),
        ("1,1", [1]),
        ("0,2x", [0]),
    ],
)
def test_a_list_chooses_and_orders(machine: Machine, cards: list[str], value: str, shown: list[int]) -> None:
    text = value
    for index, card in enumerate(cards):
        text = text.replace(f"{{{index}}}", card).replace(f"{{{index}:10}}", card[:10])
    guest = machine.guest(CUDA_VISIBLE_DEVICES=text)
    assert [f"GPU-{uuid.UUID(u)}" for u in guest("uuids()")] == [cards[i] for i in shown]


@pytest.mark.parametrize("value", ["", "-1", "7", "none", "GPU-", "GPU-00000000"])
def test_no_device_is_an_error_of_init(machine: Machine, cards: list[str], value: str) -> None:
    assert machine.guest(CUDA_VISIBLE_DEVICES=value)("cuda.cuInit(0)") == 100


def test_an_ambiguous_beginning_names_none(machine: Machine, cards: list[str]) -> None:
    assert machine.guest(CUDA_VISIBLE_DEVICES="GPU-")("cuda.cuInit(0)") == 100


def test_nvml_shows_all(machine: Machine, cards: list[str]) -> None:
    guest = machine.guest(CUDA_VISIBLE_DEVICES="2")
    guest("n = ctypes.c_uint(); device(); nv('DeviceGetCount_v2', ctypes.byref(n))")
    assert guest("n.value") == 4


def test_memory_is_charged_to_the_chosen_card(machine: Machine, cards: list[str]) -> None:
    guest = machine.guest(CUDA_VISIBLE_DEVICES="2")
    guest("init(); alloc(100)")
    assert guest("[len(processes(i)) for i in range(4)]") == [0, 0, 1, 0]
    assert guest("processes(2)") == [[guest.pid, 204]]


def test_uuids_are_the_same_every_time(machine: Machine) -> None:
    assert machine.guest()("uuids()") == ["e1a2b2cd12cc4b87a87cef9ee612432d"]
