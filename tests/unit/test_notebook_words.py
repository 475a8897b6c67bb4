from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CorePolicy, Priority
from hami_hub.core.units import MAX_VRAM, Mib, Percent
from hami_hub.notebook import words
from hami_hub.slicepage import CardView, ProcessView, Refusal, SliceView

UUID = CardUuid("GPU-00000000-0000-0000-0000-000000000001")
KERNEL = 4242

CARD = CardView(
    uuid=UUID,
    limit=Mib(4000),
    used=Mib(104),
    peak=Mib(2152),
    cores=Percent(0),
    policy=CorePolicy.DEFAULT,
    priority=Priority.LOW,
    whole=False,
    refusals=1,
    overshoots=0,
    throttled_seconds=0.0,
)
REFUSAL = Refusal(
    time=datetime(2026, 1, 1, tzinfo=timezone.utc),
    card=UUID,
    pid=KERNEL,
    call="cuMemAlloc_v2",
    asked=Mib(6144),
    used=Mib(104),
    limit=Mib(4000),
    holders=((KERNEL, Mib(104)),),
)
SLICE = SliceView(name="alice/", cards=(CARD,), processes=(), refusals=(REFUSAL,))


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        pytest.param(0, "0 bytes", id="nothing"),
        pytest.param(1024, "1024 bytes", id="1 KiB is bytes"),
        pytest.param(1025, "1.00 KiB", id="above 1 KiB"),
        pytest.param(1 << 30, "1024.00 MiB", id="1 GiB is MiB"),
        pytest.param(6 << 30, "6.00 GiB", id="6 GiB"),
        pytest.param(4000 << 20, "3.91 GiB", id="the slice of 4000 MiB"),
    ],
)
def test_bytes_are_written_as_pytorch_writes_them(amount: int, text: str) -> None:
    assert words.format_bytes(amount) == text


def test_out_of_memory_has_pytorchs_words() -> None:
    assert words.out_of_memory(asked=6 << 30, free=3896 << 20, total=4000 << 20) == (
        "CUDA out of memory. Tried to allocate 6.00 GiB. "
        "GPU 0 has a total capacity of 3.91 GiB of which 3.80 GiB is free."
    )


@pytest.mark.parametrize(
    ("asked", "held", "text"),
    [
        pytest.param(2048, 2048, "2GB allocated (2048 MiB)", id="GiB"),
        pytest.param(1536, 3584, "1.5GB allocated (3584 MiB)", id="half, on top of others"),
        pytest.param(192, 192, "192MB allocated (192 MiB)", id="less than a GiB"),
    ],
)
def test_an_allocation_is_told(asked: int, held: int, text: str) -> None:
    assert words.allocated(Mib(asked), Mib(held)) == text


@pytest.mark.parametrize(
    ("total", "fits", "too_much"),
    [
        pytest.param(256, 128, 384, id="256 MiB"),
        pytest.param(1024, 512, 1536, id="1 GiB"),
        pytest.param(2048, 1024, 3072, id="2 GiB"),
        pytest.param(4000, 2048, 6144, id="the experiment's 4000 MiB"),
        pytest.param(4096, 2048, 6144, id="4 GiB"),
        pytest.param(8192, 4096, 12288, id="8 GiB"),
        pytest.param(143771, 71680, 216064, id="a whole H200"),
    ],
)
def test_example_sizes_follow_the_slice(total: int, fits: int, too_much: int) -> None:
    assert words.example_sizes(Mib(total)) == (fits, too_much)


@given(total=st.integers(min_value=256, max_value=MAX_VRAM))
def test_one_example_fits_beside_a_context_and_the_other_never(total: int) -> None:
    fits, too_much = words.example_sizes(Mib(total))
    assert 0 < fits <= total * 0.7
    assert too_much > total


@pytest.mark.parametrize(
    ("view", "text"),
    [
        pytest.param(SLICE, "Tesla T4, your slice of it: 4000 MiB.", id="VRAM only"),
        pytest.param(
            replace(SLICE, cards=(replace(CARD, cores=Percent(25)),)),
            "Tesla T4, your slice of it: 4000 MiB, 25 % of its time.",
            id="VRAM and cores",
        ),
        pytest.param(
            replace(SLICE, cards=(replace(CARD, whole=True),)), "Tesla T4, the whole card is yours.", id="whole card"
        ),
        pytest.param(None, "Tesla T4, no slice: nothing holds this server to an amount.", id="outside a slice"),
    ],
)
def test_a_slice_is_described(view: SliceView | None, text: str) -> None:
    assert words.describe_slice(view, "Tesla T4") == text


def test_a_refusal_is_explained() -> None:
    assert words.explain_refusal(SLICE, KERNEL) == (
        "Your slice is 4000 MiB. 6144 MiB more were asked for while this kernel held 104 MiB.\n"
        "The 3896 MiB that are left of it are yours: a neighbour on the card can't take them, "
        "and you can't take a neighbour's.\n"
        "To go on: free memory, ask for 3896 MiB or less, or start the server again with a larger slice."
    )


def test_a_refusal_names_the_other_processes_of_the_slice() -> None:
    refusal = replace(REFUSAL, used=Mib(3200), holders=((7, Mib(2000)), (KERNEL, Mib(1000)), (8, Mib(200))))
    view = replace(SLICE, refusals=(refusal,), processes=(ProcessView(7, "python3", (Mib(2000),)),))
    assert "while this kernel held 1000 MiB, python3 (process 7) held 2000 MiB, process 8 held 200 MiB." in (
        words.explain_refusal(view, KERNEL)
    )


def test_only_the_last_refusal_is_explained() -> None:
    first = replace(REFUSAL, asked=Mib(9999))
    assert "9999" not in words.explain_refusal(replace(SLICE, refusals=(first, REFUSAL)), KERNEL)


def test_a_slice_that_shrank_below_its_use_has_nothing_left() -> None:
    view = replace(SLICE, refusals=(replace(REFUSAL, used=Mib(5000)),))
    assert "The 0 MiB that are left" in words.explain_refusal(view, KERNEL)


@pytest.mark.parametrize(
    ("view", "text"),
    [
        pytest.param(None, "not in a slice", id="outside a slice"),
        pytest.param(replace(SLICE, cards=(replace(CARD, whole=True),)), "the whole card", id="whole card"),
        pytest.param(replace(SLICE, refusals=()), "Nothing was refused", id="no refusal"),
    ],
)
def test_without_a_refusal_the_explanation_says_so(view: SliceView | None, text: str) -> None:
    assert text in words.explain_refusal(view, KERNEL)


def test_views_that_agree_are_summed_up() -> None:
    views = [words.MemoryView("CUDA", Mib(4000), Mib(104)), words.MemoryView("slice page", Mib(4000), Mib(104))]
    assert words.table(views).splitlines() == [
        "who says it       total        used",
        "CUDA           4000 MiB     104 MiB",
        "slice page     4000 MiB     104 MiB",
        "",
        "All say 4000 MiB.",
    ]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(words.MemoryView("NVML", Mib(15360), Mib(104)), id="another total"),
        pytest.param(words.MemoryView("NVML", problem="No driver."), id="no answer"),
    ],
)
def test_views_that_differ_are_not_said_to_agree(other: words.MemoryView) -> None:
    text = words.table([words.MemoryView("CUDA", Mib(4000), Mib(104)), other])
    assert text.endswith("They don't all say the same.")
    assert other.problem in text
