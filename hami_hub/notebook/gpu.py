"""The GPU as this notebook sees it: `from hami_hub.notebook import gpu`.

The same text is printed whether PyTorch or the driver API answers (`backend`).  Amounts go in and come out as people
write them: "2 GiB", "4000 MiB".
"""

from __future__ import annotations

import functools
import os

from ..core.units import format_vram, parse_vram
from ..slicepage import PageError, SliceView, find_slice, read_slice
from . import views, words
from .backend import Backend, choose_backend
from .errors import NotebookError


@functools.cache
def _backend() -> Backend:
    return choose_backend()


def describe() -> str:
    """Which card this is, and how much of it is yours.

    Raises:
        NoGpuError: this server has no GPU slice; says what to do.
    """
    return words.describe_slice(_slice(), _backend().card_name())


def total_memory() -> str:
    """All the VRAM that there is, as CUDA says: "4000 MiB"."""
    return f"{_backend().total_memory()} MiB"


def uuid() -> str:
    """The card's UUID.  Slices of one card have the same."""
    return _backend().card_uuid()


def example_sizes() -> tuple[str, str]:
    """Two amounts to try in this slice: one that fits, about half of it, and one that can't."""
    fits, too_much = words.example_sizes(_backend().total_memory())
    return format_vram(fits), format_vram(too_much)


def allocate(amount: str) -> None:
    """Take `amount` of VRAM, keep it until `free`, and print what was taken.

    Raises:
        OutOfMemoryError: refused, with PyTorch's words.
        AmountError: not an amount.
    """
    __tracebackhide__ = True
    asked = parse_vram(amount)
    _backend().allocate(asked)
    print(words.allocated(asked, _backend().allocated()))


def free() -> None:
    """Give back all that `allocate` took, and print what is still held."""
    _backend().free()
    print(f"Freed ({_backend().allocated()} MiB allocated)")


def explain_refusal() -> str:
    """Why the last allocation of this slice was refused, and what to do."""
    return words.explain_refusal(_slice(), os.getpid())


def memory_views() -> str:
    """The card's memory as CUDA, NVML, `hami-hub smi` and the slice page say, one line each."""
    return words.table(views.memory_views(_backend(), _slice()))


def smi() -> str:
    """The table of `hami-hub smi`, in nvidia-smi's layout."""
    return views.smi()


def _slice() -> SliceView | None:
    directory = find_slice()
    try:
        return None if directory is None else read_slice(directory)
    except PageError as error:
        raise NotebookError(str(error)) from None
