"""`hami-hub smi --refusals`: the allocations that the slice refused last.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.units import format_vram
from ...slicepage import Refusal


def render_refusals(refusals: Sequence[Refusal], names: Mapping[int, str]) -> str:
    """One paragraph a refusal, oldest first.

    Args:
        refusals: as the slice page keeps them.
        names: programs of the processes that still run.
    """
    if not refusals:
        return "Nothing was refused in this slice."
    return "\n".join(_refusal(refusal, names) for refusal in refusals)


def _refusal(refusal: Refusal, names: Mapping[int, str]) -> str:
    held = "; ".join(f"{_process(pid, names)} held {format_vram(amount)}" for pid, amount in refusal.holders)
    return (
        f"{refusal.time.astimezone():%Y-%m-%d %H:%M:%S}  {_process(refusal.pid, names)} asked for "
        f"{format_vram(refusal.asked)} by {refusal.call}: {format_vram(refusal.used)} of the slice's "
        f"{format_vram(refusal.limit)} were in use on {refusal.card}" + (f" ({held})." if held else ".")
    )


def _process(pid: int, names: Mapping[int, str]) -> str:
    return f"process {pid} ({names[pid]})" if pid in names else f"process {pid}"
