"""The public face over a backend of ours: what is printed, raised and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from hami_hub.core.cards import CardUuid
from hami_hub.core.slices import CardShare, Placement
from hami_hub.core.units import AmountError, Mib, Percent
from hami_hub.notebook import gpu, views
from hami_hub.notebook.errors import NotebookError, OutOfMemoryError
from hami_hub.slicepage import create_slice

UUID = CardUuid("GPU-00000000-0000-0000-0000-000000000001")


class FakeBackend:
    def __init__(self) -> None:
        self.kept: list[Mib] = []

    def total_memory(self) -> Mib:
        return Mib(4000)

    def free_memory(self) -> Mib:
        return Mib(4000 - self.allocated())

    def card_name(self) -> str:
        return "Tesla T4"

    def card_uuid(self) -> str:
        return UUID

    def allocate(self, amount: Mib) -> None:
        if amount > self.free_memory():
            raise OutOfMemoryError("CUDA out of memory.")
        self.kept.append(amount)

    def allocated(self) -> Mib:
        return Mib(sum(self.kept))

    def free(self) -> None:
        self.kept.clear()


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeBackend:
    backend = FakeBackend()
    monkeypatch.setattr(gpu, "_backend", lambda: backend)
    create_slice(tmp_path / "slice", name="alice/", placement=Placement((CardShare(UUID, Mib(4000), Percent(0)),)))
    monkeypatch.setenv("HAMI_SLICE_DIR", str(tmp_path / "slice"))
    return backend


def test_allocations_add_up_until_they_are_freed(capsys: pytest.CaptureFixture[str]) -> None:
    gpu.allocate("2 GiB")
    gpu.allocate("1 GiB")
    gpu.free()
    assert capsys.readouterr().out.splitlines() == [
        "2GB allocated (2048 MiB)",
        "1GB allocated (3072 MiB)",
        "Freed (0 MiB allocated)",
    ]


def test_a_refused_allocation_prints_and_keeps_nothing(
    backend: FakeBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OutOfMemoryError):
        gpu.allocate("6 GiB")
    assert capsys.readouterr().out == ""
    assert backend.kept == []


def test_what_is_no_amount_is_not_allocated(backend: FakeBackend) -> None:
    with pytest.raises(AmountError, match="Write it like"):
        gpu.allocate("lots")
    assert backend.kept == []


def test_the_slice_is_described() -> None:
    assert gpu.describe() == "Tesla T4, your slice of it: 4000 MiB."
    assert gpu.total_memory() == "4000 MiB"
    assert gpu.example_sizes() == ("2 GiB", "6 GiB")


def test_a_damaged_page_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "slice" / "usage").write_bytes(b"nonsense")
    with pytest.raises(NotebookError, match="is damaged") as caught:
        gpu.describe()
    assert caught.value._render_traceback_() == [str(caught.value)]


def test_every_source_gets_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views.cards, "memory_use", lambda uuid: views.cards.MemoryUse(Mib(4000), Mib(0)))
    monkeypatch.setattr(views, "smi", lambda *options: "4000, 0\n")
    lines = gpu.memory_views().splitlines()
    assert [line[:12].strip() for line in lines[1:5]] == ["CUDA", "NVML", "hami-hub smi", "slice page"]
    assert lines[-1] == "All say 4000 MiB."


def test_a_source_that_fails_says_why_and_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_cards(uuid: str) -> None:
        raise views.cards.NoCardsError("NVML refuses this user.", driver_missing=False)

    def no_smi(*options: str) -> str:
        raise NotebookError("`hami-hub smi` failed: no.")

    monkeypatch.setattr(views.cards, "memory_use", no_cards)
    monkeypatch.setattr(views, "smi", no_smi)
    text = gpu.memory_views()
    assert "NVML refuses this user." in text
    assert "`hami-hub smi` failed: no." in text
    assert text.count("4000 MiB") == 2
    assert text.endswith("They don't all say the same.")
