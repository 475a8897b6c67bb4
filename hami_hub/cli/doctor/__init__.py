"""`hami-hub doctor`: checks driver, limiter, slice and hub one by one, with a remedy for each finding.

`machine` asks, `checks` and `hub_checks` judge, `findings` prints.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from .checks import check_cards, check_limiter, check_port, check_python, check_slice, check_systemd
from .findings import Finding, Verdict, render, to_json
from .machine import Machine

_DEFAULT_PORT = 8000


@click.command()
@click.option(
    "--config", type=click.Path(path_type=Path), help="A jupyterhub_config.py to check; it is run, as JupyterHub does."
)
@click.option("--json", "as_json", is_flag=True, help="Findings for programs.")
def command(*, config: Path | None, as_json: bool) -> None:
    """Check driver, limiter, slice and hub.  Exit code 1 if something is wrong."""
    findings = list(_all(Machine(), config))
    click.echo(to_json(findings) if as_json else render(findings))
    raise SystemExit(any(finding.verdict is Verdict.WRONG for finding in findings))


def _all(machine: Machine, path: Path | None) -> Iterable[Finding]:
    yield from check_cards(machine)
    yield from check_limiter(machine)
    yield from check_slice(machine)
    yield from check_python(machine)
    if machine.slice_directory() is not None:
        return  # the rest is of a hub's machine
    from . import hub_checks  # JupyterHub takes a while to import

    hub, findings = hub_checks.load(path)
    yield from findings
    yield from hub_checks.check_slice_root(machine, hub)
    yield from check_port(machine, hub.port if hub else _DEFAULT_PORT)
    yield from check_systemd(machine)
