"""Which cards this machine has, asked of NVML.  The same for a real driver and for the simulated card."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pynvml

from .core.cards import DEFAULT_SPLIT_COUNT, Card, CardUuid
from .core.language import later
from .core.units import Mib, mib_down, mib_up


class NoCardsError(RuntimeError):
    """NVML can't say which cards there are.  One plain sentence with what to do.

    Attributes:
        driver_missing: True when there is no NVIDIA driver at all, False when it is there and fails.
    """

    def __init__(self, message: str, *, driver_missing: bool) -> None:
        super().__init__(message)
        self.driver_missing = driver_missing


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """A card's memory as NVML counts it, all processes of the machine together.  MiB."""

    total: Mib
    used: Mib


@contextlib.contextmanager
def nvml() -> Iterator[None]:
    """NVML, started and ended again.

    Raises:
        NoCardsError: no driver, no NVML library, or they don't fit each other.
    """
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise _explain(error) from None
    try:
        yield
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def read_cards(*, split_count: int = DEFAULT_SPLIT_COUNT) -> tuple[Card, ...]:
    """The cards in the order of NVML's index; a card that can't be asked is listed as not healthy.

    Args:
        split_count: how many slices may share a card.

    Raises:
        NoCardsError: see `nvml`.
    """
    with nvml():
        return tuple(
            card for index in range(pynvml.nvmlDeviceGetCount()) if (card := _read_card(index, split_count)) is not None
        )


def memory_use(uuid: CardUuid) -> MemoryUse | None:
    """What NVML says of one card's memory now; None if it doesn't.

    Raises:
        NoCardsError: see `nvml`.
    """
    with nvml():
        try:
            memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(uuid))
        except pynvml.NVMLError:
            return None
        return MemoryUse(mib_down(memory.total), mib_up(memory.used))


def card_minors(uuids: Iterable[str]) -> list[int]:
    """The numbers of these cards' device files: /dev/nvidia0 is 0.  One that NVML doesn't know is left out.

    Raises:
        NoCardsError: see `nvml`.
    """
    minors = []
    with nvml():
        for uuid in uuids:
            with contextlib.suppress(pynvml.NVMLError):
                minors.append(int(pynvml.nvmlDeviceGetMinorNumber(pynvml.nvmlDeviceGetHandleByUUID(uuid))))
    return minors


def describe_card(handle: object, *, index: int, split_count: int = DEFAULT_SPLIT_COUNT) -> Card:
    """The card of an NVML handle; not healthy if it can't say how much memory it has.

    Raises:
        pynvml.NVMLError: it can't even say who it is.
    """
    uuid = card_uuid(handle)
    model = _text(pynvml.nvmlDeviceGetName(handle))
    try:
        vram, healthy = pynvml.nvmlDeviceGetMemoryInfo(handle).total, True
    except pynvml.NVMLError:
        vram, healthy = 0, False
    return Card(uuid=uuid, index=index, model=model, vram=mib_down(vram), split_count=split_count, healthy=healthy)


def card_uuid(handle: object) -> CardUuid:
    """What the card, or the MIG device, of an NVML handle is called.

    Raises:
        pynvml.NVMLError: it can't say.
    """
    return CardUuid(_text(pynvml.nvmlDeviceGetUUID(handle)))


def _read_card(index: int, split_count: int) -> Card | None:
    try:
        return describe_card(pynvml.nvmlDeviceGetHandleByIndex(index), index=index, split_count=split_count)
    except pynvml.NVMLError:
        return None  # nothing to call it by


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _explain(error: pynvml.NVMLError) -> NoCardsError:
    code = error.value
    if code == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return NoCardsError(
            later(
                "The driver's library libnvidia-ml.so.1 was not found. "
                "Install the NVIDIA driver, or use simulated cards."
            ),
            driver_missing=True,
        )
    if code == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return NoCardsError(
            later(
                "The NVIDIA driver is installed but not loaded. Load it with `modprobe nvidia` or restart the machine."
            ),
            driver_missing=True,
        )
    if code == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return NoCardsError(
            later("The NVIDIA driver was updated while loaded. Restart the machine to load the new one."),
            driver_missing=False,
        )
    if code == pynvml.NVML_ERROR_NO_PERMISSION:
        return NoCardsError(
            later("NVML refuses this user. Check the access to /dev/nvidia* and the slice's page."),
            driver_missing=False,
        )
    return NoCardsError(f"NVML failed to start: {error}. Run `nvidia-smi` to see why.", driver_missing=False)
