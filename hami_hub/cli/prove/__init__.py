"""`hami-hub prove`: show on this machine's card that slices hold, and write down what was seen.

`steps` are the proofs, `bench` is what they run on, `hub` a hub for the notebooks that need one, `report` the text.
The tests prove the same on the simulated card; this is for real cards, with PyTorch.
"""

from __future__ import annotations

import importlib.util
from datetime import datetime
from pathlib import Path

import click

from ..demo.hub import Ended, ending_on_signals
from .bench import Bench, scratch_folder
from .report import Report, Verdict, render

_MARKS = {Verdict.HOLDS: "✓", Verdict.FAILS: "✗", Verdict.LEFT_OUT: "–"}


@click.command()
@click.option("--simulated", is_flag=True, help="On a simulated T4, to try the proofs themselves.")
@click.option(
    "--output",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("docs/proofs"),
    show_default=True,
    help="Where the report's folder is made.",
)
def command(*, simulated: bool, output: Path) -> None:
    """Show on this machine's card that slices hold, and write a report."""
    if importlib.util.find_spec("nbval") is None:
        raise click.ClickException(
            "The notebooks are checked with nbval, and it is not installed. Run `pip install nbval`."
        )
    try:
        with ending_on_signals():
            report = _prove(simulated=simulated)
    except Ended:
        raise click.Abort from None
    click.echo(f"The report is {_write(report, output)}")
    if report.failed:
        raise SystemExit(1)


def _prove(*, simulated: bool) -> Report:
    # not before: it needs more than the package's own dependencies
    from . import steps

    proofs = []
    with scratch_folder() as scratch:
        bench = Bench(scratch, simulated=simulated)
        facts = steps.facts(bench)
        for step in steps.STEPS:
            result = step(bench)
            for proof in result if isinstance(result, list) else [result]:
                click.echo(f"{_MARKS[proof.verdict]} {proof.title}")
                for problem in proof.problems:
                    click.echo(f"    {problem}")
                proofs.append(proof)
        return Report(
            date=f"{datetime.now().astimezone():%Y-%m-%d}",
            card=bench.card.model,
            simulated=simulated,
            facts=facts,
            proofs=proofs,
        )


def _write(report: Report, output: Path) -> Path:
    path = output / report.folder / "report.md"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(report))
    except OSError as error:
        raise click.ClickException(
            f"The report can't be written to {path} ({error.strerror}). Name another folder with --output."
        ) from None
    return path
