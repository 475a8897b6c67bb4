"""The words of this package, as plain text.  Pure: what is measured comes from `backend`, `views` and the slice page.

Amounts of an allocation and of its refusal are written as PyTorch writes them, so that people meet words they know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core.units import MIB_PER_GIB, Mib
from ..slicepage import Refusal, SliceView

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30

NO_SLICE = (
    "This server has no GPU slice. Stop it under File > Hub Control Panel, start it again, "
    "and pick a profile with VRAM, for example 4 GiB · 25 %."
)


def format_bytes(amount: int) -> str:
    """`amount` bytes as PyTorch's messages write them: "3.91 GiB", and "1024.00 MiB" for just 1 GiB."""
    for unit, size in (("GiB", _GIB), ("MiB", _MIB), ("KiB", _KIB)):
        if amount > size:
            return f"{amount / size:.2f} {unit}"
    return f"{amount} bytes"


def out_of_memory(*, asked: int, free: int, total: int) -> str:
    """What PyTorch says when the card refuses; all in bytes."""
    return (
        f"CUDA out of memory. Tried to allocate {format_bytes(asked)}. "
        f"GPU 0 has a total capacity of {format_bytes(total)} of which {format_bytes(free)} is free."
    )


def allocated(asked: Mib, held: Mib) -> str:
    """What is printed after an allocation: "2GB allocated (2048 MiB)"; `held` is all that the notebook holds now."""
    short = f"{asked / MIB_PER_GIB:g}GB" if asked >= MIB_PER_GIB else f"{asked}MB"
    return f"{short} allocated ({held} MiB)"


def example_sizes(total: Mib) -> tuple[Mib, Mib]:
    """Two amounts to try in a slice of `total`: about half of it, and half as much again as all of it.

    Whole GiB where the slice is large enough: a slice of 4000 MiB gives 2 GiB and 6 GiB.
    """
    unit = MIB_PER_GIB if total >= 1.5 * MIB_PER_GIB else 64
    half = max(round(total / 2 / unit), 1) * unit
    return Mib(half), Mib(max(round(total * 3 / 2 / unit) * unit, total + unit))


def describe_slice(view: SliceView | None, card: str) -> str:
    """The first line of a notebook: which card, and how much of it."""
    if view is None or not view.cards:
        return f"{card}, no slice: nothing holds this server to an amount."
    limit = view.cards[0]
    if limit.whole:
        return f"{card}, the whole card is yours."
    cores = f", {limit.cores} % of its time" if 0 < limit.cores < 100 else ""
    return f"{card}, your slice of it: {limit.limit} MiB{cores}."


def explain_refusal(view: SliceView | None, pid: int) -> str:
    """Why the slice's last allocation was refused, for the kernel with this PID.  A few plain sentences."""
    if view is None:
        return "This server is not in a slice: if memory was refused, the card itself was full."
    if all(card.whole for card in view.cards):
        return "Your slice is the whole card: if memory was refused, the card itself was full."
    if not view.refusals:
        return "Nothing was refused in this slice so far."
    refusal = view.refusals[-1]
    rest = Mib(max(refusal.limit - refusal.used, 0))
    return (
        f"Your slice is {refusal.limit} MiB. {refusal.asked} MiB more were asked for "
        f"while {_holders(view, refusal, pid)}.\n"
        f"The {rest} MiB that are left of it are yours: a neighbour on the card can't take them, "
        "and you can't take a neighbour's.\n"
        f"To go on: free memory, ask for {rest} MiB or less, or start the server again with a larger slice."
    )


def _holders(view: SliceView, refusal: Refusal, pid: int) -> str:
    names = {process.pid: process.name for process in view.processes}
    parts = [
        f"this kernel held {amount} MiB" if holder == pid else f"{_name(names, holder)} held {amount} MiB"
        for holder, amount in sorted(refusal.holders, key=lambda holder: holder[0] != pid)
    ]
    return ", ".join(parts) or f"{refusal.used} MiB were in use"


def _name(names: dict[int, str], pid: int) -> str:
    return f"{names[pid]} (process {pid})" if names.get(pid) else f"process {pid}"


@dataclass(frozen=True, slots=True)
class MemoryView:
    """What one source says of the card; MiB, or None with the reason in `problem`."""

    source: str
    total: Mib | None = None
    used: Mib | None = None
    problem: str = ""


def table(views: Sequence[MemoryView]) -> str:
    """The views under each other, and whether they agree on the total."""
    heading = "who says it"
    width = max(len(name) for name in (heading, *(view.source for view in views)))
    lines = [f"{heading:<{width}}  {'total':>10}  {'used':>10}"]
    lines += [
        f"{view.source:<{width}}  {_amount(view.total)}  {_amount(view.used)}{view.problem and '  ' + view.problem}"
        for view in views
    ]
    totals = {view.total for view in views}
    agree = len(totals) == 1 and None not in totals
    lines += ["", f"All say {views[0].total} MiB." if agree else "They don't all say the same."]
    return "\n".join(lines)


def _amount(amount: Mib | None) -> str:
    return f"{'-' if amount is None else f'{amount} MiB':>10}"
