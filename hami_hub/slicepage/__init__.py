"""The slice directory shared with the limiter: `limits` says what was granted, `usage` what the slice did.

The layout's only definition is native/libvgpu/include/hami_slice.h; `layout` mirrors it, `writer` makes and resizes
slices, `reader` shows them.  Bytes are spoken only here: the rest of the project counts in MiB.
"""

from __future__ import annotations

from .reader import CardView, PageError, ProcessView, Refusal, SliceView, find_slice, read_slice
from .recover import claimed_pids, read_placement
from .ring import in_ring, leave_ring
from .writer import create_slice, name_on_page, remove_slice, resize_card

__all__ = [
    "CardView",
    "PageError",
    "ProcessView",
    "Refusal",
    "SliceView",
    "claimed_pids",
    "create_slice",
    "find_slice",
    "in_ring",
    "leave_ring",
    "name_on_page",
    "read_placement",
    "read_slice",
    "remove_slice",
    "resize_card",
]
