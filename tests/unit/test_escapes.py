"""What is an escape, and when it is told."""

from __future__ import annotations

import pytest

from hami_hub.core.cards import CardUuid
from hami_hub.core.escapes import EscapeWatch, ProcessUse, SliceUse, find_escapes
from hami_hub.core.slices import SliceId
from hami_hub.core.units import Mib

CARD, OTHER = CardUuid("GPU-1"), CardUuid("GPU-2")
ALICE, BOB = SliceId("alice/"), SliceId("bob/")


def uses(**by_pid: int) -> list[ProcessUse]:
    """`p7=500`: process 7 of alice uses 500 MiB."""
    return [ProcessUse(int(pid[1:]), CARD, Mib(used), ALICE) for pid, used in by_pid.items()]


def page(limit: int = 1000, *, whole: bool = False, **by_pid: int) -> SliceUse:
    return SliceUse(ALICE, CARD, Mib(limit), {int(pid[1:]): Mib(held) for pid, held in by_pid.items()}, whole)


@pytest.mark.parametrize(
    ("driver", "pages", "culprits"),
    [
        (uses(p7=500), [page(p7=500)], None),
        (uses(p7=560), [page(p7=500)], None),
        (uses(p7=565), [page(p7=500)], (7,)),
        (uses(p7=500, p8=300), [page(p7=500)], (8,)),
        (uses(p7=500, p8=300, p9=400), [page(p7=500)], (9, 8)),
        (uses(p7=500, p8=300, p9=400), [page(p7=500, p8=300, p9=400)], (7,)),
        (uses(p7=900), [page(p7=400, p8=500)], None),
        (uses(p7=500, p8=400), [page(p1=500, p2=400)], None),
        (uses(p7=5000), [page(p7=5000)], (7,)),
        (uses(p7=5000), [page(whole=True)], None),
        (uses(p7=500), [], (7,)),
        (uses(p7=500), [SliceUse(ALICE, OTHER, Mib(1000))], (7,)),
        (uses(p7=500), [SliceUse(BOB, CARD, Mib(1000), {7: Mib(500)}), page()], (7,)),
        ([], [page(p7=500)], None),
    ],
    ids=[
        "what the page says",
        "a moment's difference",
        "more than a moment's difference",
        "a process that no page answers for",
        "several, the largest first",
        "the page admits more than the limit",
        "what another holds by the page",
        "PIDs of another namespace",
        "a page that lies",
        "a whole card keeps no account",
        "no page at all",
        "a card that the slice doesn't have",
        "another's page answers for it",
        "nothing on the card",
    ],
)
def test_what_is_an_escape(driver, pages, culprits):
    found = find_escapes(driver, pages)
    assert [tuple(pid for pid, _ in escape.processes) for escape in found] == ([] if culprits is None else [culprits])


def test_it_is_told_in_one_sentence():
    (escape,) = find_escapes(uses(p7=500, p8=3000), [page(p7=500)])
    assert escape.text == (
        "alice/ holds 3500 MiB of the card GPU-1, of which its slice answers for 500 MiB and may have 1000 MiB: "
        "process 8 got around the limiter."
    )


def test_it_is_told_once_at_the_third_look_in_a_row():
    watch = EscapeWatch()
    bad, good = (uses(p7=500, p8=300), [page(p7=500)]), (uses(p7=500), [page(p7=500)])
    assert [len(watch.see(*look)) for look in (bad, bad, good, bad, bad, bad, bad, bad)] == [0, 0, 0, 0, 0, 1, 0, 0]
    assert [len(watch.see(*look)) for look in (good, bad, bad, bad)] == [0, 0, 0, 1]


def test_a_slice_that_was_made_smaller_has_not_escaped():
    watch = EscapeWatch()
    for _ in range(3):
        assert watch.see(uses(p7=900), [page(1000, p7=900)]) == ()
    for _ in range(5):
        assert watch.see(uses(p7=900), [page(400, p7=900)]) == ()
    for _ in range(5):  # what was freed is not to be had again
        assert watch.see(uses(p7=300), [page(400, p7=300)]) == ()
    assert [len(watch.see(uses(p7=900), [page(400, p7=900)])) for _ in range(3)] == [0, 0, 1]
