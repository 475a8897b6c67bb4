"""Outputs are compared after nbval-sanitize.cfg: it must even out what differs, and nothing that is proven."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from nbval.plugin import get_sanitize_patterns

RULES = get_sanitize_patterns((Path(__file__).parents[2] / "notebooks" / "nbval-sanitize.cfg").read_text())

REFUSED = (
    "CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of 3.91 GiB of which 3.80 GiB is free."
)


def sanitize(text: str) -> str:
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    return text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            REFUSED,
            "CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of 3.91 GiB of which 3.37 GiB "
            "is free. Including non-PyTorch memory, this process has 518.00 MiB memory in use. Of the allocated memory "
            "0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
            id="PyTorch says more",
        ),
        pytest.param(
            "GPU-12345678-1234-1234-1234-1234567890ab 4096 MiB",
            "GPU-a2345678-1234-1234-1234-1234567890ab 4096 MiB",
            id="the UUID",
        ),
        pytest.param("all of the Tesla T4. Wait", "all of the NVIDIA A100-SXM4-40GB. Wait", id="the model"),
        pytest.param("Tesla T4, your slice", "NVIDIA GeForce RTX 4090, your slice", id="the model of a game card"),
        pytest.param("this kernel held 104 MiB.", "this kernel held 518 MiB.", id="the context"),
        pytest.param("The 3896 MiB that are left", "The 3482 MiB that are left", id="what is left"),
        pytest.param("ask for 3896 MiB or less", "ask for 3482 MiB or less", id="what would fit"),
        pytest.param("NVML   4000 MiB     104 MiB", "NVML   4000 MiB    2566 MiB", id="the column used"),
    ],
)
def test_what_differs_between_cards_is_made_equal(one: str, other: str) -> None:
    assert sanitize(one) == sanitize(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(REFUSED, REFUSED.replace("3.91", "14.57"), id="the total of a refusal"),
        pytest.param(REFUSED, REFUSED.replace("6.00", "1.00"), id="what was refused"),
        pytest.param("Your slice is 4000 MiB.", "Your slice is 15360 MiB.", id="the slice"),
        pytest.param("NVML   4000 MiB     104 MiB", "NVML   15360 MiB     104 MiB", id="the column total"),
        pytest.param("2GB allocated (2048 MiB)", "2GB allocated (4096 MiB)", id="what was allocated"),
        pytest.param("Tesla T4, your slice of it: 4000 MiB.", "Tesla T4, no slice: nothing holds", id="no slice"),
        pytest.param(
            f"alice: {REFUSED}\nbob: 3GB allocated (3072 MiB)", f"alice: {REFUSED}\nbob: no", id="the next line"
        ),
    ],
)
def test_what_a_slice_determines_is_compared(one: str, other: str) -> None:
    assert sanitize(one) != sanitize(other)
