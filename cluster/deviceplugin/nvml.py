"""Looks at the node's cards, in a thread of its own: what NVML says of each, and the XIDs that it tells of.

What follows from that is decided in `health`.  No error of one card keeps the others from being seen.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import pynvml

from hami_hub.cards import NoCardsError, card_uuid, describe_card, nvml
from hami_hub.core.cards import Card
from hami_hub.core.units import mib_down, mib_up

from .health import Reading
from .mig import MigDevice

# Short, so that the thread ends soon when it is told to.
_EVENT_WAIT_MS = 500
_RETRY_SECONDS = 5.0
_USABLE = (pynvml.NVML_GPU_RECOVERY_ACTION_NONE, pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P)
# So many looks at which no card answered, and NVML is started anew: the driver may have been loaded anew.
_DEAF_LOOKS = 3


class CardSink(Protocol):
    """Takes what was seen.  Called in the thread."""

    def readings(self, readings: tuple[Reading, ...]) -> None:
        """All cards, as they are now."""

    def xid(self, uuid: str, code: int) -> None:
        """A card told of an error."""

    def no_cards(self, why: str) -> None:
        """NVML can't be asked; one plain sentence."""


class CardWatch:
    """The thread that looks.

    Args:
        sink: told of everything.
        split_count: how many slices a card is cut into at most.
        seconds: between two looks.
    """

    def __init__(self, sink: CardSink, *, split_count: int, seconds: float = 10.0) -> None:
        self._sink, self._split_count, self._seconds = sink, split_count, seconds
        self._stop, self._look = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="cards", daemon=True)
        self._known: dict[str, Card] = {}

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; at most as long as one wait for events takes."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with nvml():
                    self._watch()
            except NoCardsError as error:
                self._sink.no_cards(str(error))
                self._stop.wait(_RETRY_SECONDS)
            except pynvml.NVMLError as error:
                self._sink.no_cards(f"NVML doesn't answer: {error}. Run `nvidia-smi` on the node to see why.")
                self._stop.wait(_RETRY_SECONDS)

    def _watch(self) -> None:
        """Until NVML is better started anew, or the thread is to end."""
        with _Events() as events:
            deaf = 0
            due = 0.0
            while not self._stop.is_set():
                if due <= 0 or self._look.is_set():
                    self._look.clear()
                    due = self._seconds
                    readings = self._read(events)
                    self._sink.readings(readings)
                    deaf = deaf + 1 if readings and all(reading.problem for reading in readings) else 0
                    if deaf >= _DEAF_LOOKS:
                        return
                found = events.wait() if events.watched else None
                if not events.watched:
                    self._stop.wait(_EVENT_WAIT_MS / 1000)
                if found is not None:
                    self._sink.xid(*found)
                    self._look.set()
                due -= _EVENT_WAIT_MS / 1000

    def _read(self, events: _Events) -> tuple[Reading, ...]:
        found: dict[str, Reading] = {}
        for index in range(pynvml.nvmlDeviceGetCount()):
            with contextlib.suppress(pynvml.NVMLError):  # one that is lost has no handle: it is asked for by name below
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                reading = read_card(handle, index=index, split_count=self._split_count)
                found[reading.card.uuid] = reading
                events.add(handle, reading.card.uuid)
        for uuid, card in self._known.items():
            if uuid not in found:
                found[uuid] = Reading(card, problem=_why_missing(uuid))
        self._known |= {uuid: reading.card for uuid, reading in found.items() if reading.card.vram}
        return tuple(found.values())


def read_card(handle: object, *, index: int, split_count: int) -> Reading:
    """What NVML says of one card.

    Raises:
        pynvml.NVMLError: it can't say who the card is.
    """
    reading = Reading(describe_card(handle, index=index, split_count=split_count))
    try:
        used = _used(handle)
        problem = _reset_wanted(handle)
    except pynvml.NVMLError as error:
        return replace(reading, problem=str(error))
    busy = None
    with contextlib.suppress(pynvml.NVMLError):
        busy = int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    mig = _mig_mode(handle)
    return replace(
        reading, used=used, busy=busy, problem=problem, mig=mig, mig_devices=_mig_devices(handle, index) if mig else ()
    )


class _Events:
    """NVML's events of those cards that have been added."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self.watched = False

    def __enter__(self) -> _Events:
        self._set = pynvml.nvmlEventSetCreate()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlEventSetFree(self._set)

    def add(self, handle: Any, uuid: str) -> None:
        """Watch a card too; one that has no events is only looked at."""
        if _address(handle) in self._names:
            return
        self._names[_address(handle)] = uuid
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
            self.watched = True

    def wait(self) -> tuple[str, int] | None:
        """The next card with an XID; None if there is none for a while.

        Raises:
            pynvml.NVMLError: events can't be had of NVML as it is started.
        """
        try:
            data = pynvml.nvmlEventSetWait_v2(self._set, _EVENT_WAIT_MS)
        except pynvml.NVMLError as error:
            if error.value in (pynvml.NVML_ERROR_TIMEOUT, pynvml.NVML_ERROR_GPU_IS_LOST):
                return None
            raise
        uuid = self._names.get(_address(data.device))
        return None if uuid is None else (uuid, int(data.eventData))


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _used(handle: object) -> int:
    """MiB in use, without what the driver keeps for itself where NVML tells them apart."""
    try:
        return mib_up(pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used)
    except pynvml.NVMLError as error:
        if error.value not in (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_NOT_SUPPORTED):
            raise
        return mib_up(pynvml.nvmlDeviceGetMemoryInfo(handle).used)


def _reset_wanted(handle: object) -> str:
    """Why NVML wants this card left alone until it is reset; "" if it doesn't."""
    with contextlib.suppress(pynvml.NVMLError):
        (value,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
        if value.nvmlReturn == pynvml.NVML_SUCCESS and value.value.uiVal not in _USABLE:
            return f"NVML asks for its recovery, action {value.value.uiVal}: reset the card or restart the node"
    with contextlib.suppress(pynvml.NVMLError):
        if pynvml.nvmlDeviceGetRemappedRows(handle)[3]:
            return "broken rows of its memory can't be remapped"
    return ""


def _why_missing(uuid: str) -> str:
    try:
        pynvml.nvmlDeviceGetHandleByUUID(uuid)
    except pynvml.NVMLError as error:
        return str(error)
    return "NVML doesn't list it any more"


def _mig_mode(handle: object) -> bool:
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError:
        return False
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)


def _mig_devices(handle: object, index: int) -> tuple[MigDevice, ...]:
    return tuple(_each_mig_device(handle, index))


def _each_mig_device(handle: object, index: int) -> Iterator[MigDevice]:
    for number in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with contextlib.suppress(pynvml.NVMLError):  # a place where there is none
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
            attributes = pynvml.nvmlDeviceGetAttributes(device)
            memory = mib_down(pynvml.nvmlDeviceGetMemoryInfo(device).total)
            yield MigDevice(
                uuid=card_uuid(device),
                number=f"{index}:{number}",
                memory=memory,
                slices=int(attributes.gpuInstanceSliceCount),
                compute=int(attributes.computeInstanceSliceCount),
                media=attributes.sharedOfaCount > 0,
            )
