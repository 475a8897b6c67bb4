"""`hami-hub demo`: a JupyterHub with GPU slices on this machine, to try it out.

A real card if the driver answers, else a simulated one.  `folder` keeps what stays; `state`, `hub` and `processes` see
to it that nothing else does; `../demo_config.py` is the hub's configuration.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from pathlib import Path

import click

from ...cards import NoCardsError, read_cards
from ...native import NativeMissingError, is_simulated, sim_environment
from . import ports, processes
from .cards import describe_cards
from .folder import DemoFolder
from .hub import Ended, HubProcess, ending_on_signals
from .settings import ADMIN, ENV_FOLDER, PEOPLE, Settings
from .state import memory_folder

_PROFILES = ("t4", "a10", "a100-40gb", "h200")


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True, help="Where browsers go.")
@click.option(
    "--dir", "path", type=click.Path(path_type=Path), default=".demo", show_default=True,
    help="Folder for the password, the log and the accounts' homes.",
)  # fmt: skip
@click.option("--simulated", is_flag=True, help="Simulated cards, also if there is a real one.")
@click.option("--cards", type=click.IntRange(1, 16), default=1, show_default=True, help="How many simulated cards.")
@click.option("--profile", type=click.Choice(_PROFILES), default="t4", show_default=True, help="Which simulated card.")
def command(*, port: int, path: Path, simulated: bool, cards: int, profile: str) -> None:
    """JupyterHub with GPU slices on this machine, to try it out.

    Uses the machine's NVIDIA cards, or simulated ones where there is no driver.  Ctrl-C ends all of it.
    """
    _need_jupyterlab()
    with ending_on_signals():
        try:
            _run(port, path, simulated=simulated, cards=cards, profile=profile)
        except Ended:
            click.echo("Ended.")
        except OSError as error:
            raise click.ClickException(
                f"{error.filename or path} can't be used ({error.strerror}). Name another folder with --dir."
            ) from None


def _run(port: int, path: Path, *, simulated: bool, cards: int, profile: str) -> None:
    folder = DemoFolder(path)
    with contextlib.ExitStack() as ending:
        processes.end(processes.started_with(ENV_FOLDER, str(folder.path)), patience=3)
        _need_port(port)
        hub_port, proxy_port = ports.any_free(2)
        folder.forget_hub()
        settings = Settings(
            folder=str(folder.path),
            state=str(ending.enter_context(memory_folder())),
            port=port,
            hub_port=hub_port,
            proxy_port=proxy_port,
            password=folder.password(),
        )
        folder.note(settings.url)
        folder.make_homes((*PEOPLE, ADMIN))
        environment = {**os.environ, **settings.environment()}
        if why := _why_simulated(simulated):
            environment.update(_simulation(Path(settings.state) / "cards", profile, cards))
            click.echo(f"{why} Simulated: {describe_cards(environment)}.")
        else:
            click.echo(f"Real: {describe_cards(environment)}.")
        click.echo("Starting JupyterHub ...")
        hub = HubProcess(folder, environment)
        ending.callback(hub.stop)
        hub.wait_until_ready(settings)
        click.echo(_welcome(settings, folder))
        try:
            hub.wait()
        except Ended:
            click.echo("\nEnding the hub and all servers ...")
            raise


def _welcome(settings: Settings, folder: DemoFolder) -> str:
    people = ", ".join(PEOPLE)
    return (
        f"\n  {click.style(settings.url, bold=True)}"
        f"\n  log in as   {people} or {ADMIN}"
        f"\n  password    {click.style(settings.password, bold=True)}"
        f"\n  cards and quotas, as {ADMIN}: {settings.url}/services/hami/"
        f"\n\n  Log: {folder.log}. Ctrl-C ends everything.\n"
    )


def _why_simulated(asked: bool) -> str:
    """The reason for simulated cards, "" for real ones.

    Raises:
        click.ClickException: there is a driver, and it fails.
    """
    if asked or is_simulated():
        return "As asked."
    try:
        return "" if read_cards() else "The NVIDIA driver has no card."
    except NoCardsError as error:
        if error.driver_missing:
            return "No NVIDIA driver here."
        raise click.ClickException(f"{error} Or try simulated cards with --simulated.") from None


def _simulation(state: Path, profile: str, cards: int) -> dict[str, str]:
    state.mkdir()
    try:
        return sim_environment(state, profile=profile, cards=cards)
    except NativeMissingError as error:
        raise click.ClickException(str(error)) from None


def _need_port(port: int) -> None:
    why = ports.why_not(port)
    if why is not None:
        free = ports.next_free(port)
        advice = f"--port {free} is free." if free else "Name a free one with --port."
        raise click.ClickException(f"Port {port} {why}: {advice}")


def _need_jupyterlab() -> None:
    for module in ("configurable_http_proxy", "jupyterlab"):
        if importlib.util.find_spec(module) is None:
            raise click.ClickException(
                f"The demo needs {module}, which is not installed. Install it with `pip install 'hami-hub[demo]'`."
            )
