"""Names the containers whose processes got around the limiter, and ends those processes where an admin says so.

What an escape is `hami_hub.core.escapes` decides; here NVML, the slices' pages and /proc are asked for it.  The plugin
has to see the node's processes for that (`hostPID`): whose one is stands in its control group, which it can't change.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hami_hub.card_processes import read_card_processes
from hami_hub.cards import NoCardsError
from hami_hub.core.cards import CardUuid
from hami_hub.core.escapes import Escape, EscapeWatch, ProcessUse, SliceUse
from hami_hub.core.slices import SliceId
from hami_hub.core.units import Mib
from hami_hub.slicepage.uses import uses_of

from .cdi import Owner
from .owner import Pod
from .slices import NodeSlices
from .usage import read_uses

_log = logging.getLogger(__name__)
_PROC = Path("/proc")
# "…/pod1b4e28ba-…/<id>" of the cgroupfs driver, "…-pod1b4e28ba_….slice/cri-containerd-<id>.scope" of systemd's
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_CONTAINER = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Seen:
    """A process on a card, as the node sees it.

    Attributes:
        pid: in the node's PID namespace; `inner_pid`: in its own, by which its slice's page knows it.
        cgroup: the text of /proc/<pid>/cgroup.
    """

    pid: int
    inner_pid: int
    card: CardUuid
    used: Mib
    cgroup: str


def owner_of(cgroup: str, owners: Iterable[Owner], pods: Mapping[str, Pod]) -> Owner | None:
    """Whose a process in this control group is; None: no slice's."""
    found = _POD.search(cgroup)
    if found is None:
        return None
    uid = found[1].replace("_", "-")
    of_pod = [owner for owner in owners if owner.uid == uid]
    ids = _CONTAINER.findall(cgroup)
    name = _container_name(pods.get(uid), ids[-1]) if ids else None
    if name is None:  # not yet in the pod's status
        return of_pod[0] if len(of_pod) == 1 else None
    return next((owner for owner in of_pod if owner.container == name), None)


def compared(
    seen: Iterable[Seen], slices: Mapping[Owner, Iterable[SliceUse]], pods: Mapping[str, Pod]
) -> tuple[list[ProcessUse], list[SliceUse]]:
    """What `EscapeWatch` compares: the processes of slices, and the pages with the node's PIDs instead of their own."""
    uses, outer = [], dict[tuple[SliceId, CardUuid, int], int]()
    for process in seen:
        owner = owner_of(process.cgroup, slices, pods)
        if owner is not None:
            uses.append(ProcessUse(process.pid, process.card, process.used, SliceId(owner.key)))
            outer[SliceId(owner.key), process.card, process.inner_pid] = process.pid
    pages = []
    for page in (page for of_owner in slices.values() for page in of_owner):
        # One that the driver doesn't list still answers for what it holds; no PID of the node is negative.
        held = {outer.get((page.slice, page.card, pid), -pid): used for pid, used in page.held.items()}
        pages.append(SliceUse(page.slice, page.card, page.limit, held, page.whole))
    return uses, pages


class EscapeGuard:
    """Looks every few seconds.

    Args:
        slices: of this node.
        pods: the node's pods by UID, as they are now.
        end: whether to end the processes that are found, by SIGKILL.
        tell: an event: reason, text, whether it is a warning.
        count: called with the card's UUID for each escape that is told.
        seconds: between looks; an escape is told after three of them.
    """

    def __init__(
        self,
        slices: NodeSlices,
        pods: Callable[[], Mapping[str, Pod]],
        *,
        end: bool,
        tell: Callable[[str, str, bool], None],
        count: Callable[[str], None],
        seconds: float,
    ) -> None:
        self._slices, self._pods, self._end = slices, pods, end
        self._tell, self._count, self._seconds = tell, count, seconds
        self._watch = EscapeWatch()

    async def run(self) -> None:
        """For as long as this isn't cancelled."""
        while True:
            await asyncio.sleep(self._seconds)
            await self.look_once()

    async def look_once(self) -> None:
        """One look, and what follows from it."""
        pages = self._pages()
        if pages:
            seen = await asyncio.to_thread(_look)
            self._act(pages, self._watch.see(*compared(seen, pages, self._pods())))

    def _pages(self) -> dict[Owner, list[SliceUse]]:
        return {use.owner: uses_of(SliceId(use.owner.key), use.view) for use in read_uses(self._slices)}

    def _act(self, owners: Iterable[Owner], told: Iterable[Escape]) -> None:
        by_key = {owner.key: owner for owner in owners}
        for escape in told:
            owner = by_key[escape.slice]
            self._count(escape.card)
            ended = " They are ended." if self._end else ""
            self._tell("SliceEscaped", f"{replace(escape, slice=SliceId(owner.words)).text}{ended}", True)
            if self._end:
                for pid, _ in escape.processes:
                    end(pid, partial(self._is_of, owner))

    def _is_of(self, owner: Owner, cgroup: str) -> bool:
        return owner_of(cgroup, self._slices.owners(), self._pods()) == owner


def end(pid: int, still_theirs: Callable[[str], bool]) -> None:
    """Kill a process, unless its PID has come to be another's since it was looked at."""
    with contextlib.suppress(ProcessLookupError):
        try:
            descriptor = os.pidfd_open(pid)
        except OSError as error:
            if not isinstance(error, ProcessLookupError):
                _log.warning("The process %d can't be ended: %s", pid, error.strerror)
            return
        try:
            # Only now can the PID no longer change hands.
            if still_theirs(_read(pid, "cgroup")):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except PermissionError:
            _log.warning("The process %d can't be ended: the plugin lacks the capability KILL.", pid)
        finally:
            os.close(descriptor)


def _look() -> list[Seen]:
    try:
        found = read_card_processes()
    except NoCardsError:
        return []
    return [Seen(pid, _inner_pid(pid), card, used, _read(pid, "cgroup")) for card, pid, used in found]


def _inner_pid(pid: int) -> int:
    for line in _read(pid, "status").splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return pid


def _read(pid: int, name: str) -> str:
    try:
        return (_PROC / str(pid) / name).read_text()
    except OSError:  # it has ended
        return ""


def _container_name(pod: Pod | None, container_id: str) -> str | None:
    status = pod.get("status", {}) if pod is not None else {}
    for each in status.get("containerStatuses") or ():
        if (each.get("containerID") or "").endswith(f"//{container_id}"):
            return each["name"]
    return None
