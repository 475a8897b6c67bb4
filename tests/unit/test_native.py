"""Where the compiled libraries are looked for, and the environment that leads to simulated cards."""

from __future__ import annotations

from pathlib import Path

import pytest

import hami_hub
from hami_hub import native


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in two folders, as an editable install has it: sources, and what was compiled."""
    compiled = tmp_path / "site-packages" / "hami_hub"
    (compiled / "_native").mkdir(parents=True)
    (compiled / "_native" / "libvgpu.so").touch()
    monkeypatch.setattr(hami_hub, "__path__", [str(tmp_path / "source" / "hami_hub"), str(compiled)])
    return compiled


def test_the_limiter_is_found_in_either_folder(installed: Path) -> None:
    assert native.limiter_path() == installed / "_native" / "libvgpu.so"
    assert native.sim_folder() == installed / "_native" / "sim"


def test_a_copied_package_has_no_limiter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hami_hub, "__path__", [str(tmp_path)])
    with pytest.raises(native.NativeMissingError, match=r"Install it with `pip install \.`"):
        native.limiter_path()


@pytest.mark.parametrize("before", ["", "/opt/lib", "/opt/lib:{sim}:/usr/lib", "{sim}"])
def test_simulated_cards_come_first_and_once(installed: Path, monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    sim = str(native.sim_folder())
    monkeypatch.setenv("LD_LIBRARY_PATH", before.format(sim=sim))
    environment = native.sim_environment(Path("/dev/shm/x"), profile="a10", cards=2)
    paths = environment.pop("LD_LIBRARY_PATH").split(":")
    assert paths[0] == sim
    assert paths[1:] == [path for path in before.format(sim=sim).split(":") if path not in ("", sim)]
    assert environment == {"HAMI_SIM_DIR": "/dev/shm/x", "HAMI_SIM_PROFILE": "a10", "HAMI_SIM_CARDS": "2"}


@pytest.mark.parametrize(("variable", "simulated"), [("HAMI_SIM_DIR", True), ("HAMI_OTHER", False)])
def test_a_process_knows_that_its_cards_are_simulated(
    monkeypatch: pytest.MonkeyPatch, variable: str, simulated: bool
) -> None:
    monkeypatch.delenv("HAMI_SIM_DIR", raising=False)
    monkeypatch.setenv(variable, "/dev/shm/x")
    assert native.is_simulated() is simulated
