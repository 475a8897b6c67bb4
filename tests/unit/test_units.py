"""Amounts: what people write, what is understood, and what a wrong one is answered."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.core.units import MAX_VRAM, AmountError, format_gib, format_vram, parse_percent, parse_vram


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("4 GiB", 4096),
        ("4Gi", 4096),
        ("4GiB", 4096),
        ("4gib", 4096),
        ("4096", 4096),
        (4096, 4096),
        ("4096MiB", 4096),
        ("4096 MiB", 4096),
        ("3000m", 3000),
        ("1.5 GiB", 1536),
        ("0.5GiB", 512),
        ("1TiB", 1024 * 1024),
        ("  2 GiB\t", 2048),
    ],
)
def test_amounts_people_write(text: str | int, mib: int) -> None:
    assert parse_vram(text) == mib


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "not an amount", id="empty"),
        pytest.param("lots", "not an amount", id="word"),
        pytest.param("-4 GiB", "not an amount", id="negative"),
        pytest.param("0", "no memory at all", id="zero"),
        pytest.param("0.0 GiB", "no memory at all", id="decimal zero"),
        pytest.param("1000000000000", "more than any card", id="10^12"),
        pytest.param("9" * 4000, "not an amount", id="thousands of digits"),
        pytest.param("٤ GiB", "not an amount", id="arabic-indic digit"),
        pytest.param("４ GiB", "not an amount", id="full-width digit"),
        pytest.param("<script>alert(1)</script>", "not an amount", id="html"),
        pytest.param("4 GB", "decimal unit", id="decimal unit"),
        pytest.param("4G", "decimal unit", id="decimal unit short"),
        pytest.param("4 XiB", "unit", id="no such unit"),
        pytest.param("1.0001 GiB", "whole number of MiB", id="not whole"),
        pytest.param("4 GiB; rm -rf /", "not an amount", id="trailing text"),
        pytest.param("4 GiB\n", "not an amount", id="trailing newline"),
        pytest.param("1e3", "not an amount", id="exponent"),
        pytest.param(True, "not an amount", id="boolean"),
        pytest.param(None, "not an amount", id="nothing"),
        pytest.param(["4"], "not an amount", id="list"),
    ],
)
def test_a_wrong_amount_gets_one_sentence_with_a_way_out(text: object, says: str) -> None:
    with pytest.raises(AmountError) as refused:
        parse_vram(text)  # type: ignore[arg-type]
    message = str(refused.value)
    assert says in message
    assert "Write it like 4 GiB" in message
    assert len(message) < 200


@given(st.integers(1, MAX_VRAM))
def test_what_is_printed_can_be_typed(mib: int) -> None:
    assert parse_vram(format_vram(mib)) == mib  # type: ignore[arg-type]


@given(st.text(max_size=20))
def test_no_text_breaks_the_parsers(text: str) -> None:
    for parse in (parse_vram, parse_percent):
        with contextlib.suppress(AmountError):
            assert parse(text) >= 0


@pytest.mark.parametrize(
    ("mib", "text"), [(15360, "15 GiB"), (4000, "3.9 GiB"), (11264, "11 GiB"), (100, "100 MiB"), (0, "0 GiB")]
)
def test_gib_for_comparing_rounds_down(mib: int, text: str) -> None:
    assert format_gib(mib) == text  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "percent"), [("25", 25), ("25%", 25), ("25 %", 25), (25, 25), ("0", 0), ("100", 100)])
def test_percentages(text: str | int, percent: int) -> None:
    assert parse_percent(text) == percent


@pytest.mark.parametrize("text", ["101", "-1", "2.5", "", "٢٥", "all", "1000000000000", True])
def test_wrong_percentages_say_what_is_right(text: str) -> None:
    with pytest.raises(AmountError, match="whole number from 0 to 100"):
        parse_percent(text)
