"""Spawners that start servers as plain processes of this machine, each on its slice.

Here the limiter travels by LD_PRELOAD, in the server's environment.  Everything that a server starts inherits it, so it
holds for people who work; a tenant who wants to can drop it, and then has the whole card.  Where tenants are not
trusted use `systemd`, whose limits no environment can change.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner

from ..core.language import say
from . import processes
from .accounts import account, can_read, can_write
from .errors import GpuSpawnError, Reason, unwritable_home
from .machine import MachineSlicesMixin
from .processes import ProcessMark


class _ExplainingProcess(LocalProcessSpawner):  # type: ignore[misc]
    """Says in words why a program could not be run."""

    async def start(self) -> Any:
        """Start the program."""
        program = next(iter([*self.shell_cmd, *self.cmd]), "jupyterhub-singleuser")
        try:
            return await super().start()
        except (FileNotFoundError, NotADirectoryError):
            why = say(
                "Your server was not started: the program {program} was not found. Ask an admin to put it right.",
                program=program,
            )
        except PermissionError:
            why = say(
                "Your server was not started: the program {program} may not be run by {user}. "
                "Ask an admin to put it right.",
                program=program,
                user=self.user.name,
            )
        except subprocess.SubprocessError:
            why = say(
                "Your server was not started: the program {program} could not be started as {user}. "
                "Ask an admin to put it right.",
                program=program,
                user=self.user.name,
            )
        raise GpuSpawnError(why, reason=Reason.COMMAND)


class _OwnProcess(MachineSlicesMixin, _ExplainingProcess):
    """What both local spawners share."""

    async def find_server(self) -> ProcessMark | None:
        """The process that was started."""
        return processes.mark(self.pid) if self.pid else None

    async def poll(self) -> int | None:
        """None while the server runs."""
        # After a restart of the hub a PID may be somebody else's, or that of a zombie which nobody collects.
        if self.proc is None and self._server_process is not None and not processes.runs(self._server_process):
            self.pid = 0
        return await super().poll()

    def account(self) -> pwd.struct_passwd | None:
        """Whom the server runs as; None: the hub's own user."""
        return None

    def preload(self) -> Path | None:
        """The limiter, sure to be found: one that the loader can't read it leaves out without a word."""
        limiter = self.slices.limiter()
        if can_read(limiter, self.account()):
            return limiter
        raise GpuSpawnError(
            say(
                "No server can be started now. The limiter {limiter} can't be read by {user}. "
                "Ask an admin to put it right.",
                limiter=limiter,
                user=self.user.name,
            ),
            reason=Reason.SETUP,
        )

    def why_ended(self, status: object) -> GpuSpawnError:
        """The home folder is the commonest reason, and the server's own words about it are lost in the log."""
        home = Path(self.user_env({}).get("HOME", "/"))
        return super().why_ended(status) if can_write(home, self.account()) else unwritable_home(home)


class GpuLocalProcessSpawner(_OwnProcess):
    """Starts each server as the UNIX user of the person's name, on a slice of a card.

    What `LocalProcessSpawner` has holds here too; what people can pick from is `c.GpuSlices`.
    """

    def account(self) -> pwd.struct_passwd | None:
        """The user of the person's name."""
        return account(self.user.name)

    def tenant(self) -> tuple[int, int] | None:
        """The user's uid and gid."""
        found = account(self.user.name)
        return found.pw_uid, found.pw_gid


class GpuSimpleLocalProcessSpawner(_OwnProcess, SimpleLocalProcessSpawner):  # type: ignore[misc]
    """Starts every server as the hub's own user, on a slice of a card: for demos and tests.

    Its users are not protected from each other.  Needs no accounts on the machine.
    """

    def prepare(self) -> None:
        """Make the home folder: the spawner's own way logs a traceback where it can't, and goes on."""
        try:
            os.makedirs(self.home_dir, 0o755, exist_ok=True)
        except OSError:
            raise unwritable_home(Path(self.home_dir)) from None
