"""The command `hami-hub`.

Every command is a module of this package with a `command` in it, imported only when it is called: `--help` and `smi`
needn't wait for JupyterHub.  What goes wrong in a way that a person can mend is a `click.ClickException` of one plain
sentence.
"""

from __future__ import annotations

import importlib

import click

from .. import __version__

_COMMANDS = {
    "demo": "JupyterHub with GPU slices on this machine, to try it out.",
    "doctor": "Check driver, limiter, slice and hub, with a remedy for each finding.",
    "prove": "Show on this machine's card that slices hold, and write a report.",
    "quota": "Quotas of groups: list, show, set, check, and try one on the past.",
    "smi": "The cards, or the slice that this runs in, in nvidia-smi's layout.",
    "usage": "Who had how much of the cards, from the hub's journal.",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(f"{__name__}.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hami-hub")
def main() -> None:
    """GPU slices for JupyterHub."""
