"""`hami-hub prove --simulated`, proof by proof; and that a proof fails where the limit doesn't hold."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from hami_hub.cli import main
from hami_hub.cli.demo.folder import notebooks_folder
from hami_hub.cli.prove import steps
from hami_hub.cli.prove.bench import Bench
from hami_hub.cli.prove.report import Proof
from hami_hub.core.slices import Placement
from hami_hub.native import limiter_path
from hami_hub.notebook import words
from hami_hub.notebook.check import NOTEBOOKS, check_notebook
from hami_hub.slicepage import create_slice
from hami_hub.spawner.environment import slice_environment

ON_A_HUB = steps.notebooks_on_a_hub
pytestmark = pytest.mark.timeout(400)


def assert_holds(proof: Proof) -> None:
    assert not proof.problems, "\n".join([*proof.problems, *(ran.output for ran in proof.ran)])


@pytest.mark.parametrize("step", [pytest.param(step, id=step.__name__) for step in steps.STEPS if step is not ON_A_HUB])
def test_a_proof_holds(bench: Bench, step: Callable[[Bench], Proof]) -> None:
    assert_holds(step(bench))


@pytest.mark.timeout(800)
def test_the_notebooks_hold_on_a_hub(bench: Bench) -> None:
    proofs = steps.notebooks_on_a_hub(bench)
    assert [proof.title for proof in proofs] == ["Notebook 02-shared-uuid", "Notebook 03-whole-card"]
    for proof in proofs:
        assert_holds(proof)


def test_notebook_01_notices_that_nothing_limits_it(bench: Bench, tmp_path: Path) -> None:
    notebook = notebooks_folder() / NOTEBOOKS[0]
    checked = check_notebook(notebook, environment=bench.environment, scratch=tmp_path, seconds=240)
    assert not checked.passed
    assert "15360 MiB" in checked.record


def no_card(bench: Bench) -> dict[str, str]:
    """The environment of a server without a GPU: its slice has no card."""
    directory = bench.scratch / "slices" / "cpu"
    create_slice(directory, name="cpu", placement=Placement(()))
    return slice_environment(bench.environment, Placement(()), directory=directory, preload=limiter_path())


def damaged(bench: Bench) -> dict[str, str]:
    environment = bench.slice("damaged", vram=4000)
    (Path(environment["HAMI_SLICE_DIR"]) / "usage").write_bytes(b"nonsense")
    return environment


def too_small(bench: Bench) -> dict[str, str]:
    return bench.slice("tiny", vram=50)


@pytest.mark.parametrize(
    ("server", "code", "sentence"),
    [
        pytest.param(no_card, "gpu.describe()", words.NO_SLICE, id="no GPU"),
        pytest.param(damaged, "gpu.describe()", "is damaged: 8 bytes instead of", id="damaged slice page"),
        pytest.param(damaged, "gpu.total_memory()", "slice page can't be read", id="damaged slice page, asked of CUDA"),
        pytest.param(too_small, "gpu.allocate('1 MiB')", "no room left even to begin", id="no room for a context"),
    ],
)
def test_a_server_that_cannot_use_the_card_is_told_why_in_one_line(
    bench: Bench, server: Callable[[Bench], dict[str, str]], code: str, sentence: str
) -> None:
    environment = {**server(bench), "IPYTHONDIR": str(bench.scratch / "ipython")}
    program = f"from hami_hub.notebook import gpu; {code}"
    told = bench.run(sys.executable, "-m", "IPython", "--no-banner", "-c", program, environment=environment)
    assert sentence in told.stdout
    assert len(told.stdout.strip().splitlines()) == 1


def test_the_command_writes_a_report_and_fails_with_a_proof(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(bench: Bench) -> Proof:
        return Proof(title="Broken", claim="It never holds.", problems=["It doesn't hold."])

    monkeypatch.setattr(steps, "STEPS", (steps.one_card, broken))
    result = CliRunner().invoke(main, ["prove", "--simulated", "--output", str(tmp_path)])
    (report,) = tmp_path.glob("*-tesla-t4-simulated/report.md")
    assert result.exit_code == 1
    assert result.output.splitlines() == [
        "✓ Two slices of one card have the card's UUID",
        "✗ Broken",
        "    It doesn't hold.",
        f"The report is {report}",
    ]
    assert "| 2. Broken | FAILS |" in report.read_text()
