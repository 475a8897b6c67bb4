"""What is made of NVML's answers, and of its failures."""

from __future__ import annotations

from types import SimpleNamespace

import pynvml
import pytest

from hami_hub import cards
from hami_hub.cards import MemoryUse, NoCardsError
from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.units import Mib

MIB = 1024 * 1024


class FakeNvml:
    """NVML with two cards; what is named in `failing` answers with that error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.failing: dict[str, int] = {}
        self.open = 0
        for name in (
            "nvmlInit",
            "nvmlShutdown",
            "nvmlDeviceGetCount",
            "nvmlDeviceGetHandleByIndex",
            "nvmlDeviceGetHandleByUUID",
            "nvmlDeviceGetUUID",
            "nvmlDeviceGetName",
            "nvmlDeviceGetMemoryInfo",
        ):
            monkeypatch.setattr(pynvml, name, self._answering(name))

    def _answering(self, name: str) -> object:
        def answer(*arguments: object) -> object:
            if name in self.failing:
                raise pynvml.NVMLError(self.failing[name])
            return getattr(self, name)(*arguments)

        return answer

    def nvmlInit(self) -> None:  # noqa: N802
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:  # noqa: N802
        return int(uuid[-1])

    def nvmlDeviceGetUUID(self, handle: int) -> bytes:  # noqa: N802
        return f"GPU-{handle}".encode()

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return "Tesla T4"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> object:  # noqa: N802
        return SimpleNamespace(total=15360 * MIB, used=104 * MIB + 1)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    return FakeNvml(monkeypatch)


def test_cards_in_the_order_of_their_index(nvml: FakeNvml) -> None:
    assert cards.read_cards(split_count=4) == tuple(
        Card(uuid=CardUuid(f"GPU-{index}"), index=index, model="Tesla T4", vram=Mib(15360), split_count=4)
        for index in (0, 1)
    )
    assert nvml.open == 0


def test_a_card_whose_memory_cannot_be_asked_is_not_healthy(nvml: FakeNvml) -> None:
    nvml.failing["nvmlDeviceGetMemoryInfo"] = pynvml.NVML_ERROR_GPU_IS_LOST
    assert [(card.vram, card.healthy) for card in cards.read_cards()] == [(0, False), (0, False)]


def test_a_card_without_a_name_is_left_out(nvml: FakeNvml) -> None:
    nvml.failing["nvmlDeviceGetUUID"] = pynvml.NVML_ERROR_UNKNOWN
    assert cards.read_cards() == ()


def test_memory_in_use_is_rounded_up(nvml: FakeNvml) -> None:
    assert cards.memory_use(CardUuid("GPU-0")) == MemoryUse(Mib(15360), Mib(105))
    nvml.failing["nvmlDeviceGetHandleByUUID"] = pynvml.NVML_ERROR_NOT_FOUND
    assert cards.memory_use(CardUuid("GPU-0")) is None
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("code", "words", "missing"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "Install the NVIDIA driver", True),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "modprobe nvidia", True),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "Restart the machine", False),
        (pynvml.NVML_ERROR_NO_PERMISSION, "NVML refuses this user", False),
        (pynvml.NVML_ERROR_UNKNOWN, "Run `nvidia-smi` to see why", False),
    ],
)
def test_why_there_are_no_cards(nvml: FakeNvml, code: int, words: str, missing: bool) -> None:
    nvml.failing["nvmlInit"] = code
    with pytest.raises(NoCardsError, match=words) as error:
        cards.read_cards()
    assert error.value.driver_missing is missing


def test_nvml_is_ended_after_an_error(nvml: FakeNvml) -> None:
    nvml.failing["nvmlDeviceGetCount"] = pynvml.NVML_ERROR_UNKNOWN
    with pytest.raises(pynvml.NVMLError):
        cards.read_cards()
    assert nvml.open == 0
