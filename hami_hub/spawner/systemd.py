"""A spawner that starts each server as a systemd unit with its slice mounted, so that no tenant can get around it.

The slice's pages are mounted read-only, the limiter by way of the unit's own /etc/ld.so.preload: the environment has no
power over either, and the machine's files stay as they are, but for one: where the machine has no /etc/ld.so.preload,
systemd makes an empty one to mount on.  Don't remove it while servers run; that would take their limiter away.

Which properties a unit needs for that is said here; how units are run is systemdspawner's.
"""

from __future__ import annotations

import asyncio
import pwd
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

try:
    from systemdspawner import SystemdSpawner
except ImportError:
    raise ImportError(
        "GpuSystemdSpawner needs jupyterhub-systemdspawner. Install it with `pip install jupyterhub-systemdspawner`."
    ) from None

from ..core.language import say
from ..slicepage.reader import MOUNTED_SLICE
from . import processes
from .accounts import account, can_write
from .allocator import PlacedSlice
from .config import GpuSlices
from .errors import GpuSpawnError, Reason, unwritable_home
from .machine import MachineSlicesMixin
from .mounted import PRELOAD_LIST, SliceMount, check_limiter, open_pages, slice_mounts, write_preload_list
from .processes import ProcessMark

# In a user namespace of its own a tenant could hide the limiter, and with this capability unmount it.
_NO_WAY_OUT = {"RestrictNamespaces": "~user", "CapabilityBoundingSet": "~CAP_SYS_ADMIN"}
# systemd.exec(5), "Process exit codes"
_EXIT_CHDIR, _EXIT_EXEC, _EXIT_NAMESPACE = 200, 203, 226


class _WatchedUnit(SystemdSpawner):  # type: ignore[misc]
    """A unit with properties added at its start, whose failure is noticed at once."""

    unit_name: str
    unit_extra_properties: dict[str, str | list[str]]
    _starts = False

    def slice_properties(self) -> dict[str, str | list[str]]:
        """Properties for this start, on top of the admin's `unit_extra_properties`."""
        return {}

    async def start(self) -> Any:
        """Start the unit."""
        admins = dict(self.unit_extra_properties)
        self.unit_extra_properties = join_properties(admins, self.slice_properties())
        self._starts = True
        try:
            return await super().start()
        finally:
            self._starts = False
            self.unit_extra_properties = admins

    async def poll(self) -> int | None:
        """None while the unit runs."""
        status: int | None = await super().poll()
        if status is not None and self._starts:
            # systemdspawner asks for the first time when systemd has done its part, then again until the time is over.
            raise await self._why_not_started()
        return status

    def why_ended(self, status: object) -> GpuSpawnError:
        """What to tell the person whose unit failed."""
        raise NotImplementedError

    async def _why_not_started(self) -> GpuSpawnError:
        if await unit_property(self.unit_name, "LoadState") == "not-found":
            return GpuSpawnError(
                say("systemd did not start your server, or it ended at once. Ask an admin to look into the hub's log."),
                reason=Reason.COMMAND,
            )
        return self.why_ended(await self.exit_status())

    async def exit_status(self) -> object:
        """What the unit ended with."""
        raise NotImplementedError

    def _expand_user_vars(self, string: Any) -> Any:
        # systemdspawner's own fails on the lists that it allows.
        if isinstance(string, list):
            return [super(_WatchedUnit, self)._expand_user_vars(each) for each in string]
        return super()._expand_user_vars(string)


class GpuSystemdSpawner(MachineSlicesMixin, _WatchedUnit):
    """Starts each server as a systemd unit, on a slice of a card that it can't get out of.

    What `SystemdSpawner` has holds here too; what people can pick from is `c.GpuSlices`.  Units may not make user
    namespaces, nor have CAP_SYS_ADMIN, unless `unit_extra_properties` says otherwise.  Keep `disable_user_sudo` on:
    root finds a way out of anything.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.name:
            # systemdspawner has one unit for all servers of a user
            self.unit_name = f"{self.unit_name}-{self.name}"

    @property
    def slices(self) -> GpuSlices:
        """The hub's settings and allocator."""
        slices = super().slices
        slices.mounted = True
        return slices

    def account(self) -> pwd.struct_passwd | None:
        """Whom the unit runs as; None: a dynamic user, who is nobody yet."""
        return None if self.dynamic_users else account(self._expand_user_vars(self.username_template))

    def prepare(self) -> None:
        """See whether there is the program at all: systemd-run says so to the log only."""
        runtime = Path("/run") / self.unit_name
        if runtime.is_symlink() and not runtime.exists():
            # systemd leaves a dynamic user's link behind, on which systemdspawner fails the next time
            runtime.unlink()
        program = str(self._expand_user_vars(self.cmd[0]))
        if shutil.which(program, path=self.get_env().get("PATH")) is None:
            raise GpuSpawnError(
                say(
                    "Your server was not started: the program {program} was not found. Ask an admin to put it right.",
                    program=program,
                ),
                reason=Reason.COMMAND,
            )

    def tenant(self) -> tuple[int, int] | None:
        """The user's uid and gid."""
        found = self.account()
        return None if found is None else (found.pw_uid, found.pw_gid)

    def preload(self) -> Path | None:
        """None: the unit's /etc/ld.so.preload carries it."""
        return None

    def slice_directory(self, placed: PlacedSlice) -> Path:
        """Where the unit has its slice mounted."""
        return MOUNTED_SLICE

    def slice_properties(self) -> dict[str, str | list[str]]:
        """What mounts the slice, and the limiter."""
        assert self._placed is not None
        directory, limiter = self._placed.directory, self.slices.limiter()
        check_limiter(limiter)
        write_preload_list(directory, machines_preloads())
        if self.dynamic_users:
            open_pages(directory)
        properties = mount_properties(directory, limiter, self.slices.allocator.root.ring)
        for key, value in _NO_WAY_OUT.items():
            if key not in self.unit_extra_properties:
                properties[key] = value
        if self.isolate_devices and self._placed.placement.shares:
            properties = join_properties(properties, device_properties())
        return properties

    async def find_server(self) -> ProcessMark | None:
        """The unit's main process."""
        pid = await unit_property(self.unit_name, "MainPID")
        return processes.mark(int(pid)) if pid not in ("", "0") else None

    async def exit_status(self) -> object:
        """The main process's, or systemd's own where there was none."""
        return int(await unit_property(self.unit_name, "ExecMainStatus") or 0)

    async def end_server(self) -> None:
        """End whatever is left in the unit."""
        await systemctl("kill", "--signal=KILL", self.unit_name)
        await systemctl("stop", self.unit_name)

    def why_ended(self, status: object) -> GpuSpawnError:
        """Some exit statuses are systemd's, and say what it could not do."""
        found = self.account()
        if found is not None and (status == _EXIT_CHDIR or not can_write(Path(found.pw_dir), found)):
            return unwritable_home(Path(found.pw_dir))
        if status == _EXIT_EXEC:
            return GpuSpawnError(
                say(
                    "Your server was not started: the program {program} can't be run by {user}. "
                    "Ask an admin to put it right.",
                    program=self.cmd[0],
                    user=self.user.name,
                ),
                reason=Reason.COMMAND,
            )
        if status == _EXIT_NAMESPACE:
            return GpuSpawnError(
                say(
                    "Your slice can't be mounted, so your server was not started. "
                    "Ask an admin to run `systemctl status {unit}`.",
                    unit=self.unit_name,
                ),
                reason=Reason.SETUP,
            )
        return super().why_ended(status)


def mount_properties(directory: Path, limiter: Path, ring: Path) -> dict[str, str | list[str]]:
    """What mounts the slice in `directory` where the limiter looks first, and the limiter into every process.

    Args:
        directory: of the slice.
        limiter: the library.
        ring: where the slices on a card find each other.
    """
    mounts = slice_mounts(directory, limiter, ring)
    return {
        # Hides the other slices, and keeps the mount points out of the machine's /run.
        "TemporaryFileSystem": f"{MOUNTED_SLICE.parent}:ro",
        "BindReadOnlyPaths": _binds(each for each in mounts if not each.writable),
        "BindPaths": _binds(each for each in mounts if each.writable),
    }


def device_properties(dev: Path = Path("/dev")) -> dict[str, str | list[str]]:
    """What brings the cards' device files back into a unit that has a /dev of its own."""
    found = sorted(path for path in dev.glob("nvidia*") if path.is_char_device())
    found += sorted(path for path in dev.glob("nvidia-caps/*") if path.is_char_device())
    if not found:
        return {}
    return {
        "BindPaths": " ".join(escaped(path) for path in found),
        "DeviceAllow": [f"{path} rw" for path in found],
    }


def join_properties(
    first: Mapping[str, str | list[str]], second: Mapping[str, str | list[str]]
) -> dict[str, str | list[str]]:
    """Both; of a property that both have, first the one's and then the other's values."""
    joined = dict(first)
    for key, value in second.items():
        mine = joined.get(key)
        if mine is None:
            joined[key] = value
        elif isinstance(mine, str) and isinstance(value, str):
            joined[key] = f"{mine} {value}"
        else:
            joined[key] = [*_listed(mine), *_listed(value)]
    return joined


def machines_preloads() -> list[str]:
    """What the machine's own /etc/ld.so.preload lists, which units go on to load."""
    try:
        return PRELOAD_LIST.read_text().splitlines()
    except OSError:
        return []


def escaped(path: Path) -> str:
    """A path as the value of a property that systemdspawner expands and systemd splits at blanks and colons."""
    text = str(path)
    for special, written in (("\\", r"\\"), (" ", r"\ "), (":", r"\:"), ("{", "{{"), ("}", "}}")):
        text = text.replace(special, written)
    return text


async def unit_property(unit: str, name: str) -> str:
    """What systemd says of a unit; "" if it says nothing."""
    return (await systemctl("show", "--value", f"--property={name}", unit)).strip()


async def systemctl(*arguments: str) -> str:
    """What systemctl prints.  Its failures are not ours: a unit that is gone is what is wanted."""
    process = await asyncio.create_subprocess_exec(
        "systemctl",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    output, _ = await process.communicate()
    return output.decode(errors="replace")


def _binds(mounts: Iterable[SliceMount]) -> str:
    return " ".join(f"{escaped(each.source)}:{each.target}" for each in mounts)


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value
