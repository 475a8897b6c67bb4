"""`c.GpuSlices`: what an admin sets, and the one allocator that a hub has."""

from __future__ import annotations

import asyncio
from functools import cached_property
from pathlib import Path
from typing import Any

from traitlets import Dict, Enum, Float, Integer, List, TraitError, Unicode, default, validate
from traitlets.config import SingletonConfigurable

from ..cards import read_cards
from ..core.cards import DEFAULT_SPLIT_COUNT, Card
from ..core.profiles import Profile, ProfileError, default_profiles, parse_profiles
from ..native import LIMITER, NativeMissingError, limiter_path
from .allocator import Allocator
from .errors import log_without_tracebacks
from .escapes import EscapeGuard
from .slice_root import SliceRoot, SliceRootError, default_slice_root


class GpuSlices(SingletonConfigurable):
    """What is offered, and where slices are kept.  One for each hub process, shared by all its spawners."""

    profiles = List(
        Dict(),
        help="""
        What people can pick from, in the order in which the form shows it. The first is preset, and is what a request
        by the REST API gets that names none: let it be one without a GPU.

        Each profile is a dictionary. Only `name` is needed; without `gpu`, `vram` and `cores` it is a whole card.

        - `name`: key in forms and in the REST API: lower-case letters, digits and dashes
        - `title`, `description`: what the form says
        - `gpu`: False for a server without a GPU
        - `vram`: memory of each card, "4 GiB", "50 %", or "whole"
        - `cores`: percent of each card's time, 0 to 100; 0: no share is promised and none is enforced
        - `cards`: how many cards; 1 if not given
        - `min_vram`, `max_vram`, `max_cores`: the person may type an amount within these; `vram` and `cores` are preset
        - `groups`: JupyterHub groups that may use it; everybody if not given
        - `models`: parts of the model's name that will do, ["T4"]
        - `policy`: "default" lends idle time, "force" is a hard cap, "disable" is no limit on cores
        - `card_policy`: "binpack" fills cards up one by one, "spread" takes the emptiest
        - `priority`: 0 goes before 1

        Example::

            c.GpuSlices.profiles = [
                {"name": "cpu", "title": "CPU only", "gpu": False},
                {"name": "small", "title": "4 GiB · 25 %", "vram": "4 GiB", "cores": 25},
                {"name": "whole", "title": "Whole card", "groups": ["research"]},
            ]

        Default: no GPU, 2, 4 and 8 GiB, a whole card, and an amount of one's own: sizes that make sense on cards of
        15 GiB and more.
        """,
    ).tag(config=True)

    slice_root = Unicode(
        help="""
        Folder of the slice directories, which the limiter maps into the processes of a slice. It must be on a tmpfs
        and belong to this hub alone. Of no use on Kubernetes, where the nodes keep them.

        Example::

            c.GpuSlices.slice_root = "/run/hami/slices"

        Default: /run/hami/slices for a hub that runs as root where /run is a tmpfs, as it is under systemd; else a
        folder in /dev/shm.
        """,
    ).tag(config=True)

    split_count = Integer(
        DEFAULT_SPLIT_COUNT,
        min=1,
        help="""
        How many slices may share one card. On Kubernetes the chart's value `devicePlugin.deviceSplitCount` says so.

        Example::

            c.GpuSlices.split_count = 4

        Default: 10, as HAMi's deviceSplitCount. Each slice costs its card some 100 to 500 MiB for the context
        of every process in it, so more than that rarely helps anybody.
        """,
    ).tag(config=True)

    wait_timeout = Float(
        600,
        min=0,
        help="""
        How long a server waits for room on the cards (on Kubernetes: for a node), in seconds, before the person is
        told that it took too long.
        It comes on top of the spawner's `start_timeout`, which is the time for the start itself. Those who wait count
        towards `JupyterHub.concurrent_spawn_limit`. 0: nobody waits.

        Example::

            c.GpuSlices.wait_timeout = 3600

        Default: 600, as long as somebody may be thought to look at the page.
        """,
    ).tag(config=True)

    escapes = Enum(
        ("report", "end", "ignore"),
        "report",
        help="""
        What to do about processes that got around the limiter: a program without a dynamic linker, or one that talks
        to the driver's devices by itself. Every few seconds what NVML says of a slice's processes is compared with what
        the slice accounts for; more than that at three looks in a row is an escape. "report": a warning in the hub's
        log. "end": the processes are killed too, as far as the hub may. "ignore": nobody looks. On Kubernetes the
        node's agent does this.

        Example::

            c.GpuSlices.escapes = "end"

        Default: "report", since only an admin knows what else runs on the cards.
        """,
    ).tag(config=True)

    _guard: asyncio.Task[None] | None = None

    # Set by spawners that mount slices for their servers: then nobody else needs to reach the folder.
    mounted = False

    @default("slice_root")
    def _default_slice_root(self) -> str:
        return str(default_slice_root())

    @validate("profiles")
    def _valid_profiles(self, proposal: dict[str, Any]) -> Any:
        try:
            parse_profiles(proposal["value"])
        except ProfileError as error:
            raise TraitError(f"c.GpuSlices.profiles: {error}") from None
        return proposal["value"]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        log_without_tracebacks(self.log)

    @cached_property
    def offered(self) -> tuple[Profile, ...]:
        """The profiles, ready to be chosen from."""
        return parse_profiles(self.profiles) if self.profiles else default_profiles()

    @cached_property
    def allocator(self) -> Allocator:
        """The hub's only allocator.

        What an earlier hub left is given back as soon as all spawners of running servers have restored theirs, which
        the hub does in one go before it waits for anything.
        """
        root = SliceRoot(Path(self.slice_root), mode=0o700 if self.mounted else 0o711)
        allocator = Allocator(root, self._read_cards, self.log)
        asyncio.get_running_loop().call_soon(self._clear_strays, allocator)
        if self.escapes != "ignore":
            guard = EscapeGuard(root.directories, end=self.escapes == "end", log=self.log)
            self._guard = asyncio.ensure_future(guard.run())
        return allocator

    def limiter(self) -> Path:
        """The limiter at a path that LD_PRELOAD can carry.

        Raises:
            NativeMissingError: see `native.limiter_path`.
            SliceRootError: a link to it was needed and can't be made.
        """
        path = limiter_path()
        if not any(character in str(path) for character in " :"):
            return path
        return self.allocator.root.link(path, LIMITER)

    def setup_problem(self) -> str:
        """Why no server could be started on a slice now, a sentence for admins; "" if all is well."""
        try:
            self.allocator.root.open()
            self.limiter()
        except (NativeMissingError, SliceRootError) as error:
            return str(error)
        return ""

    def _read_cards(self) -> tuple[Card, ...]:
        return read_cards(split_count=self.split_count)

    def _clear_strays(self, allocator: Allocator) -> None:
        try:
            allocator.clear_strays()
        except SliceRootError as error:
            self.log.error("No server can be started on a slice. %s", error)
