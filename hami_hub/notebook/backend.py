"""The two ways to the card: PyTorch where it finds CUDA, else the driver API, which also meets a simulated card.

Both do the same, so that a notebook prints the same text with either.  `gpu` is the face of it.
"""

from __future__ import annotations

import contextlib
from typing import Protocol

from ..core.units import Mib


class Backend(Protocol):
    """One way to the first card that this process may use.  Amounts in MiB, rounded down."""

    def total_memory(self) -> Mib:
        """The card's VRAM as CUDA shows it: in a slice, the slice."""

    def free_memory(self) -> Mib:
        """What CUDA says is free now."""

    def card_name(self) -> str:
        """The model, "Tesla T4"."""

    def card_uuid(self) -> str:
        """The card's UUID, "GPU-…"."""

    def allocate(self, amount: Mib) -> None:
        """Take `amount` and keep it.

        Raises:
            OutOfMemoryError: refused; PyTorch's own, or this package's with the same words.
        """

    def allocated(self) -> Mib:
        """What was taken by `allocate` and not freed."""

    def free(self) -> None:
        """Give all of it back to the card."""


def choose_backend() -> Backend:
    """PyTorch if it finds CUDA, else the driver API.

    Raises:
        NoGpuError: neither finds a card; says what to do.
    """
    # A PyTorch that is broken is no reason to go without the card.
    with contextlib.suppress(ImportError, OSError):
        import torch

        if torch.cuda.is_available():
            from .torch_backend import TorchBackend

            return TorchBackend()
    from .driver_backend import DriverBackend

    return DriverBackend()
