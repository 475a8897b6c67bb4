"""`c.GpuSlices`: what an admin sets, and what a hub has one of: allocator, charges, journal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from traitlets import Bool, Dict, Enum, Float, Integer, List, TraitError, Unicode, default, validate
from traitlets.config import SingletonConfigurable

from .. import metrics
from ..cards import read_cards
from ..core.cards import DEFAULT_SPLIT_COUNT, Card
from ..core.fairness import Waiting, in_turn
from ..core.language import in_english
from ..core.profiles import Profile, ProfileError, default_profiles, parse_profiles
from ..core.quota import PREFIX, parse_quota
from ..core.slices import SliceId
from ..core.units import Mib
from ..journal import DEFAULT_URL, Journal, url_problem
from ..languages import languages
from ..native import LIMITER, NativeMissingError, limiter_path
from .allocator import Allocator
from .attempt import Books
from .charges import Charges
from .errors import log_without_tracebacks
from .escapes import EscapeGuard
from .past import PastUse
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
        - `max_lifetime`: "8h": the server is stopped after so long; a quota's `hami.max-lifetime` may say less

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

    default_quota = Dict(
        help="""
        The quota of those who are in no group that has one: the same keys as on groups (see docs/quotas.md), with text
        or numbers as values. `hami.vram` is for all these people together, `hami.vram-per-user` for each of them.

        Example::

            c.GpuSlices.default_quota = {"hami.vram-per-user": "8GiB", "hami.max-lifetime": "8h"}

        Default: no limit.
        """,
    ).tag(config=True)

    show_holders = Bool(
        False,
        help="""
        Whether a person whose quota is used up is told by name whose servers hold it. Their own are always named.

        Example::

            c.GpuSlices.show_holders = True

        Default: False, since who works when is not everybody's business.
        """,
    ).tag(config=True)

    fair_half_life = Float(
        24 * 3600,
        help="""
        Those who wait for room are served in the order of what their groups have had so far, for their `hami.weight`.
        Use counts half after so many seconds. Of no use on Kubernetes, where the scheduler's queue is the line.

        Example::

            c.GpuSlices.fair_half_life = 7 * 24 * 3600

        Default: 86400, a day: who used much yesterday waits a little longer today.
        """,
    ).tag(config=True)

    journal_url = Unicode(
        DEFAULT_URL,
        help="""
        Database in which the hub writes down every start of a server, for reports and the admin's page: a URL as
        SQLAlchemy has them. A relative path counts from the hub's working directory. Empty: none is kept.

        Example::

            c.GpuSlices.journal_url = "sqlite:////srv/jupyterhub/hami-hub.sqlite"

        Default: the file hami-hub.sqlite beside JupyterHub's own database, which lies there by default too.
        """,
    ).tag(config=True)

    journal_days = Float(
        400,
        min=0,
        help="""
        How long a start is kept in the journal after its end, in days. 0: for ever.

        Example::

            c.GpuSlices.journal_days = 90

        Default: 400, so that this month can be compared with that of last year.
        """,
    ).tag(config=True)

    metrics_users = Bool(
        False,
        help="""
        Whether the hub's metrics name people.

        Example::

            c.GpuSlices.metrics_users = True

        Default: False: metrics are read by many, and each name is a series of its own.
        """,
    ).tag(config=True)

    language = Unicode(
        "",
        help="""
        The language that people are spoken to in: "en", "ja" or "zh_Hans". Empty: their browser's, if it is one of
        these, else English.

        Example::

            c.GpuSlices.language = "ja"

        Default: empty, since a hub's people rarely all read the same.
        """,
    ).tag(config=True)

    _guard: asyncio.Task[None] | None = None
    _loading: asyncio.Task[None] | None = None

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

    @validate("default_quota")
    def _valid_default_quota(self, proposal: dict[str, Any]) -> Any:
        _, faults = parse_quota(proposal["value"])
        others = [key for key in proposal["value"] if not str(key).startswith(PREFIX)]
        if others:
            raise TraitError(f"c.GpuSlices.default_quota: {others[0]!r} is no key of a quota. Keys begin with hami.")
        if faults:
            raise TraitError(f"c.GpuSlices.default_quota: {in_english(faults[0].text)}")
        return proposal["value"]

    @validate("fair_half_life")
    def _valid_half_life(self, proposal: dict[str, Any]) -> Any:
        if not proposal["value"] > 0:
            raise TraitError(f"c.GpuSlices.fair_half_life is {proposal['value']}. Write seconds, more than 0.")
        return proposal["value"]

    @validate("journal_url")
    def _valid_journal_url(self, proposal: dict[str, Any]) -> Any:
        if problem := url_problem(proposal["value"]):
            raise TraitError(f"c.GpuSlices.journal_url: {problem}")
        return proposal["value"]

    @validate("language")
    def _valid_language(self, proposal: dict[str, Any]) -> Any:
        if proposal["value"] and proposal["value"] not in languages():
            raise TraitError(
                f"c.GpuSlices.language is {proposal['value']!r}. There are {', '.join(languages())}; or leave it empty."
            )
        return proposal["value"]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        log_without_tracebacks(self.log)

    @property
    def offered(self) -> tuple[Profile, ...]:
        """The profiles, ready to be chosen from; our own are named in the language that holds."""
        return self._declared if self.profiles else default_profiles()

    @cached_property
    def _declared(self) -> tuple[Profile, ...]:
        return parse_profiles(self.profiles)

    @cached_property
    def books(self) -> Books:
        """Where the hub writes down who is charged for what, and what became of it.

        What an earlier hub left open is closed as soon as all spawners of running servers have restored theirs, which
        the hub does in one go before it waits for anything.
        """
        journal = Journal(self.journal_url, days=self.journal_days, log=self.log)
        metrics.install(journal, self.default_quota, users=self.metrics_users)
        asyncio.get_running_loop().call_soon(lambda: journal.close_strays((), time.time()))
        return Books(Charges(self.default_quota), journal)

    @cached_property
    def past(self) -> PastUse:
        """What each group has had of the cards."""
        past = PastUse(self.books.journal, self.fair_half_life, self.log)
        self._loading = asyncio.ensure_future(past.load())
        return past

    @cached_property
    def allocator(self) -> Allocator:
        """The hub's only allocator; for what an earlier hub left, see `books`."""
        root = SliceRoot(Path(self.slice_root), mode=0o700 if self.mounted else 0o711)
        charges = self.books.charges
        allocator = Allocator(root, self._read_cards, self.log, order=self._in_turn, ends=charges.ends)
        _ = self.past
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

    def _in_turn(self, waiting: Sequence[SliceId]) -> Iterable[SliceId]:
        charges = {charge.holder: charge for charge in self.books.charges.all()}
        held = {who: charges[who] for who in waiting if who in charges}
        if len({charge.group.casefold() for charge in held.values()}) < 2:
            return waiting
        nobody = Waiting("", 1.0, Mib(0))
        lines = {
            who: Waiting(held[who].group, held[who].weight, held[who].vram) if who in held else nobody
            for who in waiting
        }
        return in_turn(lines, self.past.by_group())

    def _read_cards(self) -> tuple[Card, ...]:
        return read_cards(split_count=self.split_count)

    def _clear_strays(self, allocator: Allocator) -> None:
        try:
            allocator.clear_strays()
        except SliceRootError as error:
            self.log.error("No server can be started on a slice. %s", error)
