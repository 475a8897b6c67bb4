"""Which way to the card is taken, and what is said when there is none."""

from __future__ import annotations

import builtins
import sys
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hami_hub.core.units import Mib
from hami_hub.notebook import words
from hami_hub.notebook.backend import choose_backend
from hami_hub.notebook.driver_backend import DriverBackend
from hami_hub.notebook.errors import NoGpuError, OutOfMemoryError

GIB = 1 << 30


class Result(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_STUB_LIBRARY = 34
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_NOT_PERMITTED = 800
    CUDA_ERROR_UNKNOWN = 999


class FakeDriver:
    """A slice of 4 GiB, as cuda-bindings would show it; `answers` are results other than success, by call."""

    CUresult = Result

    def __init__(self, **answers: Result) -> None:
        self.answers = answers
        self.held: dict[int, int] = {}
        self.current: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        results: dict[str, tuple[Any, ...]] = {
            "cuDeviceGet": (0,),
            "cuDeviceTotalMem": (4 * GIB,),
            "cuDeviceGetName": (b"Tesla T4\0\0",),
            "cuDeviceGetUuid": (SimpleNamespace(bytes=bytes(range(16))),),
            "cuDevicePrimaryCtxRetain": ("context",),
            "cuMemGetInfo": (4 * GIB - sum(self.held.values()), 4 * GIB),
        }
        return lambda *arguments: (self.answers.get(name, Result.CUDA_SUCCESS), *results.get(name, ()))

    def cuCtxSetCurrent(self, context: Any) -> tuple[Result]:  # noqa: N802
        self.current.append(context)
        return (Result.CUDA_SUCCESS,)

    def cuMemAlloc(self, size: int) -> tuple[Result, int | None]:  # noqa: N802
        if sum(self.held.values()) + size > 4 * GIB:
            return Result.CUDA_ERROR_OUT_OF_MEMORY, None
        self.held[len(self.held) + 1] = size
        return Result.CUDA_SUCCESS, len(self.held)

    def cuMemFree(self, pointer: int) -> tuple[Result]:  # noqa: N802
        del self.held[pointer]
        return (Result.CUDA_SUCCESS,)


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)


def use(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver) -> FakeDriver:
    bindings = ModuleType("cuda.bindings")
    bindings.driver = driver  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cuda.bindings", bindings)
    return driver


@pytest.mark.usefixtures("no_torch")
def test_without_pytorch_the_driver_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeDriver())
    backend = choose_backend()
    assert isinstance(backend, DriverBackend)
    assert backend.total_memory() == 4096
    assert backend.card_name() == "Tesla T4"
    assert backend.card_uuid() == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"


def test_where_pytorch_finds_no_card_the_driver_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    use(monkeypatch, FakeDriver())
    assert isinstance(choose_backend(), DriverBackend)


def test_a_broken_pytorch_is_no_reason_to_go_without_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "torch":
            raise OSError("libcudart.so.13: cannot open shared object file")
        return whole(name, *arguments, **options)

    whole = builtins.__import__
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    use(monkeypatch, FakeDriver())
    monkeypatch.setattr(builtins, "__import__", broken)
    assert isinstance(choose_backend(), DriverBackend)


@pytest.mark.usefixtures("no_torch")
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        pytest.param(Result.CUDA_ERROR_NO_DEVICE, words.NO_SLICE, id="a server without a GPU"),
        pytest.param(Result.CUDA_ERROR_STUB_LIBRARY, words.NO_SLICE, id="no driver"),
        pytest.param(Result.CUDA_ERROR_NOT_PERMITTED, "slice page can't be read", id="a damaged page"),
        pytest.param(Result.CUDA_ERROR_UNKNOWN, "answered CUDA_ERROR_UNKNOWN", id="anything else"),
    ],
)
def test_a_card_that_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch, answer: Result, sentence: str) -> None:
    use(monkeypatch, FakeDriver(cuInit=answer))
    with pytest.raises(NoGpuError) as caught:
        choose_backend()
    assert sentence in str(caught.value)


@pytest.mark.usefixtures("no_torch")
def test_without_any_binding_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(NoGpuError, match="pip install cuda-bindings"):
        choose_backend()


def test_a_full_slice_refuses_with_pytorchs_words_and_keeps_what_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = use(monkeypatch, FakeDriver())
    backend = DriverBackend()
    backend.allocate(Mib(3072))
    with pytest.raises(OutOfMemoryError) as caught:
        backend.allocate(Mib(1025))
    assert str(caught.value) == (
        "CUDA out of memory. Tried to allocate 1.00 GiB. "
        "GPU 0 has a total capacity of 4.00 GiB of which 1024.00 MiB is free."
    )
    assert backend.allocated() == 3072
    backend.free()
    assert (backend.allocated(), driver.held) == (0, {})


def test_a_slice_too_full_for_a_context_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeDriver(cuDevicePrimaryCtxRetain=Result.CUDA_ERROR_OUT_OF_MEMORY))
    with pytest.raises(NoGpuError, match="Shut down other kernels"):
        DriverBackend().free_memory()


def test_every_use_makes_the_context_current_for_threads_that_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = use(monkeypatch, FakeDriver())
    backend = DriverBackend()
    backend.allocate(Mib(1))
    backend.free_memory()
    assert driver.current == ["context", "context"]
