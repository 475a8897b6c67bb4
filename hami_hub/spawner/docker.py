"""A spawner that starts each server in a Docker container with its slice mounted, so that no tenant can get around it.

The slice's pages are mounted read-only, the limiter by way of the container's own /etc/ld.so.preload, before any of its
processes runs: `docker exec`, `env -i` and `su` meet the same cap.  Each start makes a new container, since mounts
can't be changed later.  The hub must see the machine's processes and NVML: run it on the machine itself, or in a
container with `--pid=host` and the slices' folder at its own path.

What a container needs for that is said in `docker_host`; how containers are run is dockerspawner's.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

try:
    import docker.errors
    from docker.types import Mount
    from dockerspawner import DockerSpawner
except ImportError:
    raise ImportError("GpuDockerSpawner needs dockerspawner. Install it with `pip install dockerspawner`.") from None
import requests
from tornado import web
from traitlets import Enum, default

from ..cards import card_minors
from ..core.language import say
from ..core.slices import Placement
from ..native import ENV_SIM_DIR, is_simulated, sim_folder
from ..slicepage.reader import MOUNTED_SLICE
from . import docker_host, processes
from .allocator import PlacedSlice
from .config import GpuSlices
from .docker_host import HostConfig
from .errors import GpuSpawnError, Reason
from .machine import MachineSlicesMixin
from .mounted import SliceMount, check_limiter, open_pages, slice_mounts, write_preload_list
from .processes import ProcessMark

_CALLS_AT_ONCE = 8
_WAIT_SECONDS = 10
_LAST_LINES = 20  # of a container's output, for the hub's log
# docker-run(1), "Exit status"
_EXIT_NOT_RUN, _EXIT_NOT_FOUND = 126, 127
# The daemon doesn't answer; what it refuses, APIError, is one of the former too.
_AWAY = (docker.errors.DockerException, requests.RequestException)
_NO_PROGRAM = re.compile(r'exec: \\?"(?P<program>[^"\\]+)\\?": .*(no such file|not found)')


class _OwnContainer(DockerSpawner):  # type: ignore[misc]
    """A container made anew for each start, with more in its host configuration than the admin's."""

    extra_host_config: Any
    _calls: ThreadPoolExecutor | None = None
    _last_call: asyncio.Future[Any] | None = None

    def slice_mounts(self) -> tuple[SliceMount, ...]:
        """What this start mounts, on top of the admin's."""
        return ()

    async def host_config(self, admins: HostConfig) -> HostConfig:
        """The host configuration of this start."""
        return admins

    @default("remove")
    def _default_remove(self) -> bool:
        return True

    @property
    def will_resume(self) -> bool:
        """Never: see `start`."""
        return False

    async def start(self) -> Any:
        """Make and start a container; a former one has another slice mounted."""
        if await self.get_object() is not None:
            await self.docker("remove_container", self.container_id, v=True, force=True)
        return await super().start()

    async def create_object(self) -> Any:
        """Make the container."""
        admins = self.extra_host_config
        given = self._eval_if_callable(admins)
        config = await self.host_config(dict(await given if inspect.isawaitable(given) else given))
        self.extra_host_config = config
        try:
            return await super().create_object()
        finally:
            self.extra_host_config = admins

    @property
    def mount_binds(self) -> list[Any]:
        """The admin's mounts, and the slice's."""
        ours = [
            Mount(str(mount.target), str(mount.source), type="bind", read_only=not mount.writable)
            for mount in self.slice_mounts()
        ]
        return [*super().mount_binds, *ours]

    @property
    def executor(self) -> ThreadPoolExecutor:
        """Several threads for all servers: a pull or a stop that takes long holds nobody else up."""
        if _OwnContainer._calls is None:
            _OwnContainer._calls = ThreadPoolExecutor(_CALLS_AT_ONCE, thread_name_prefix="docker")
        return _OwnContainer._calls

    def docker(self, method: str, *args: Any, **kwargs: Any) -> asyncio.Future[Any]:
        """Call the daemon.  A server's calls keep their order: what was cancelled is over before the next begins."""
        before, theirs = self._last_call, super().docker
        if method == "pull":  # nothing comes of it that would have to be undone
            pulling: asyncio.Future[Any] = theirs(method, *args, **kwargs)
            return pulling

        async def call() -> Any:
            if before is not None:
                await asyncio.wait({before})
            return await theirs(method, *args, **kwargs)

        self._last_call = asyncio.ensure_future(call())
        # What comes of a call that nobody waits for any more is no news to anybody.
        self._last_call.add_done_callback(lambda done: done.cancelled() or done.exception())
        return asyncio.shield(self._last_call)

    async def get_object(self) -> Any:
        """The container as Docker has it; None if there is none."""
        try:
            found = await self.docker("inspect_container", self.object_name)
        except docker.errors.NotFound:
            self.object_id = ""
            return None
        # dockerspawner takes a container for gone whose daemon has an error of its own.
        self.object_id = found[self.object_id_key]
        return found

    async def poll(self) -> int | None:
        """None while the container runs, as far as anybody knows."""
        if not self.object_id:
            return 0  # none was made: Docker needn't be asked, also when many are cancelled at once
        try:
            status: int | None = await super().poll()
        except _AWAY as error:  # a container can do without the daemon
            self.log.debug("Docker doesn't say whether the container of %s runs: %r", self._log_name, error)
            return None
        return status

    async def state(self) -> Mapping[str, Any]:
        """The container's state as Docker has it; empty if there is none."""
        found = await self.get_object()
        state: Mapping[str, Any] = found["State"] if found else {}
        return state


class GpuDockerSpawner(MachineSlicesMixin, _OwnContainer):
    """Starts each server in a Docker container, on a slice of a card that it can't get out of.

    What `DockerSpawner` has holds here too, but that a container is never used again: keep what is to last on volumes.
    With `remove` off, an ended container stays for a look until the next start.  What people can pick from is
    `c.GpuSlices`.  The image needs glibc; a container with CAP_SYS_ADMIN, without seccomp, or privileged is refused.
    """

    card_access = Enum(
        ("auto", "runtime", "files"),
        "auto",
        help="""
        How a container gets at the cards of its slice, and at no others. "runtime": by NVIDIA's container runtime,
        which also brings the driver's libraries. "files": by their device files in /dev alone; the image, or mounts of
        yours, must have the driver's libraries. "auto": "runtime" where `docker info` lists it, else "files".

        Example::

            c.GpuDockerSpawner.card_access = "files"

        Default: "auto".
        """,
    ).tag(config=True)

    @property
    def slices(self) -> GpuSlices:
        """The hub's settings and allocator."""
        slices = super().slices
        slices.mounted = True
        return slices

    def preload(self) -> Path | None:
        """None: the container's /etc/ld.so.preload carries it."""
        return None

    def slice_directory(self, placed: PlacedSlice) -> Path:
        """Where the container has its slice mounted."""
        return MOUNTED_SLICE

    async def start_on_slice(self, news: Any) -> Any:
        """Write what is mounted, then start the container."""
        assert self._placed is not None
        directory, limiter = self._placed.directory, self.slices.limiter()
        check_limiter(limiter)
        write_preload_list(directory)
        # Who a container's processes are is the image's to say.
        open_pages(directory)
        return await super().start_on_slice(news)

    def slice_mounts(self) -> tuple[SliceMount, ...]:
        """The slice, the limiter, and the simulated driver where there is one."""
        if self._placed is None:
            return ()
        mounts = slice_mounts(self._placed.directory, self.slices.limiter(), self.slices.allocator.root.ring)
        if is_simulated():
            state = Path(os.environ[ENV_SIM_DIR])
            mounts += (SliceMount(sim_folder(), sim_folder()), SliceMount(state, state, writable=True))
        return mounts

    async def host_config(self, admins: HostConfig) -> HostConfig:
        """The admin's, with the slice's cards; refused if the container could leave its slice with it."""
        if why := docker_host.way_out(admins):
            raise GpuSpawnError(why, reason=Reason.SETUP)
        config = docker_host.held(admins)
        assert self._placed is not None
        return config if is_simulated() else await self._with_cards(config, self._placed.placement)

    async def _with_cards(self, config: HostConfig, placement: Placement) -> HostConfig:
        access, uuids = self.card_access, [share.uuid for share in placement.shares]
        if access == "auto":
            access = "runtime" if docker_host.has_runtime(await self.docker("info")) else "files"
        if access == "runtime":
            return docker_host.with_runtime(config, uuids)
        return docker_host.with_files(config, await asyncio.to_thread(card_minors, uuids))

    async def pull_image(self, image: str) -> None:
        """Pull the image if need be, and say so: it may take minutes."""
        if self._news is not None and not await self._has_image(image):
            self._news.tell(60, say("The image {image} is fetched. That can take some minutes.", image=image))
        try:
            await super().pull_image(image)
        except docker.errors.APIError as error:
            self.log.error("The image %s can't be had: %s", image, error.explanation or error)
            raise GpuSpawnError(
                say(
                    "Your server was not started: its image {image} can't be had. Ask an admin to put it right.",
                    image=image,
                ),
                reason=Reason.IMAGE,
            ) from None

    async def _has_image(self, image: str) -> bool:
        try:
            await self.docker("inspect_image", image)
        except docker.errors.NotFound:
            return False
        return True

    # --- how it ends --------------------------------------------------------------------------------------------

    async def find_server(self) -> ProcessMark | None:
        """The container's first process, if this hub sees the machine's processes as Docker does."""
        pid = int((await self.state()).get("Pid") or 0)
        process = processes.mark(pid) if pid else None
        return process if process is not None and _is_in(pid, self.container_id) else None

    async def exit_status(self) -> object:
        """What the container ended with; its last words go to the hub's log."""
        # The process may be gone before Docker has taken note of it.
        with contextlib.suppress(*_AWAY):
            await self.docker("wait", self.container_id, timeout=_WAIT_SECONDS)
        state = await self.state()
        with contextlib.suppress(*_AWAY):
            said = await self.docker("logs", self.container_id, tail=_LAST_LINES)
            self.log.warning(
                "The container of %s ended. Its last words: %s", self._log_name, said.decode("utf8", "replace")
            )
        return "OOM" if state.get("OOMKilled") else state.get("ExitCode", "?")

    def why_ended(self, status: object) -> GpuSpawnError:
        """Some exit statuses are Docker's own."""
        if status in (_EXIT_NOT_FOUND, _EXIT_NOT_RUN):
            return self._no_program(str(self.cmd[0]) if self.cmd else self.image)
        if status == "OOM":
            return GpuSpawnError(
                say(
                    "Your server needed more memory than its container may have, and was ended. "
                    "Ask an admin to raise the limit."
                ),
                reason=Reason.SERVER_ENDED,
            )
        return super().why_ended(status)

    async def end_server(self) -> None:
        """End whatever is left in the container, and remove it unless it is to be looked at."""
        try:
            if self.remove:
                await self.docker("remove_container", self.object_name, v=True, force=True)
            else:
                await self.docker("kill", self.object_name)
        except docker.errors.APIError:
            pass  # it is gone, which is what is wanted
        except _AWAY as error:
            self.log.warning("The container %s can't be removed: %s", self.object_name, error)

    def explain(self, error: BaseException) -> BaseException:
        """`error` in words for the person, if it was to be foreseen."""
        if isinstance(error, docker.errors.APIError):
            return self._explain_refusal(error)
        if isinstance(error, _AWAY):
            self.log.error("Docker can't be reached: %s", error)
            return GpuSpawnError(
                say("Docker doesn't answer, so your server was not started. Ask an admin to look into the hub's log."),
                reason=Reason.SETUP,
            )
        if isinstance(error, web.HTTPError) and not isinstance(error, GpuSpawnError) and error.status_code == 400:
            return GpuSpawnError(str(error.log_message), reason=Reason.BAD_OPTION)  # check_allowed's
        return super().explain(error)

    def _explain_refusal(self, error: docker.errors.APIError) -> GpuSpawnError:
        text = str(error.explanation or error)
        if found := _NO_PROGRAM.search(text):
            return self._no_program(found["program"])
        self.log.error("Docker refused the container of %s: %s", self._log_name, text)
        return GpuSpawnError(
            say("Docker could not start your server. Ask an admin to look into the hub's log."), reason=Reason.SETUP
        )

    def _no_program(self, program: str) -> GpuSpawnError:
        return GpuSpawnError(
            say(
                "Your server was not started: the program {program} was not found in the image {image}. "
                "Ask an admin to put it right.",
                program=program,
                image=self.image,
            ),
            reason=Reason.COMMAND,
        )


def _is_in(pid: int, container: str) -> bool:
    """Whether a process that this machine knows by `pid` is in the container of that id."""
    try:
        return container in Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False
