from __future__ import annotations

import pytest

from hami_hub.cli.prove.bench import Ran
from hami_hub.cli.prove.report import Proof, Report, Verdict, render

HOLDS = Proof(title="It holds", claim="Two are two.", ran=(Ran("echo 2", 0, "2\n", ""),))
FAILS = Proof(title="It fails", claim="Two are three.", problems=["2"], ran=(Ran("echo 2", 1, "2\n", "bad\n"),))
LEFT_OUT = Proof(title="It waits", claim="Later.", left_out="there is no PyTorch.")


def report(*proofs: Proof, simulated: bool = False) -> Report:
    return Report(date="2026-01-02", card="NVIDIA A100-SXM4-40GB", simulated=simulated, proofs=proofs)


@pytest.mark.parametrize(
    ("proof", "verdict"),
    [
        pytest.param(HOLDS, Verdict.HOLDS, id="no problem"),
        pytest.param(FAILS, Verdict.FAILS, id="a problem"),
        pytest.param(LEFT_OUT, Verdict.LEFT_OUT, id="not tried"),
    ],
)
def test_the_verdict_follows_from_what_was_seen(proof: Proof, verdict: Verdict) -> None:
    assert proof.verdict is verdict


@pytest.mark.parametrize(
    ("proofs", "failed"),
    [
        pytest.param((HOLDS, LEFT_OUT), False, id="all hold or were left out"),
        pytest.param((HOLDS, FAILS), True, id="one fails"),
    ],
)
def test_one_failure_fails_the_run(proofs: tuple[Proof, ...], failed: bool) -> None:
    assert report(*proofs).failed is failed


def test_the_folder_is_named_after_day_and_card() -> None:
    assert report().folder == "2026-01-02-nvidia-a100-sxm4-40gb"
    assert report(simulated=True).folder == "2026-01-02-nvidia-a100-sxm4-40gb-simulated"


def test_the_report_has_verdicts_first_and_raw_output() -> None:
    text = render(report(HOLDS, FAILS, LEFT_OUT))
    assert text.startswith("# Proofs on one NVIDIA A100-SXM4-40GB, 2026-01-02\n")
    assert "| 1. It holds | holds |\n| 2. It fails | FAILS |\n| 3. It waits | left out |" in text
    assert "```console\n$ echo 2\n2\n```" in text
    assert "```console\n$ echo 2\n2\nbad\n[exit code 1]\n```" in text
    assert "Left out: there is no PyTorch." in text


def test_a_simulated_card_is_never_taken_for_a_real_one() -> None:
    assert "on a simulated NVIDIA A100" in render(report(simulated=True))


def test_output_cannot_end_its_block() -> None:
    text = render(report(Proof(title="x", claim="x", ran=(Ran("cat", 0, "```\n", ""),))))
    assert "````console\n$ cat\n```\n````" in text
