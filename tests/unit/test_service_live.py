"""Many look at once, and some at one person's page only: each gets what is newest, made once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from hami_hub.core.history import Start, StartState
from hami_hub.core.inventory import QueuedPod
from hami_hub.core.units import Mib
from hami_hub.service import live as module
from hami_hub.service.live import Live
from hami_hub.service.model import GroupSeen
from hami_hub.service.sight import Sight, SliceSeen


class Changing:
    """Eyes that see a little more in use at each look."""

    looks = 0

    async def look(self) -> Sight:
        self.looks += 1
        await asyncio.sleep(0)
        return Sight(slices=(replace(SEEN, used=Mib(self.looks)),))


SEEN = SliceSeen(holder="alice/", card="GPU-a", vram=Mib(4096), cores=25)  # type: ignore[arg-type]


class Quiet:
    """A journal and a hub that know of nothing."""

    problem, none_yet = "", False

    async def open_starts(self) -> tuple[Any, ...]:
        return ()

    async def groups(self) -> tuple[GroupSeen, ...]:
        return ()

    def forget_groups(self) -> None: ...


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Live:
    monkeypatch.setattr(module, "PERIOD", 3600.0)  # however slow the machine
    quiet: Any = Quiet()
    return Live(Changing(), quiet, quiet, default_quota={})


def used(said: Any) -> Any:
    return list(said["sections"]["used"].values())


async def test_what_another_page_has_looked_up_is_told(live):
    assert used(await live.since("")) == [1]
    live.look_again()
    await live.world()  # for somebody's own page
    assert used(await live.since("")) == [2]


async def test_a_change_during_a_look_is_seen_by_who_asks_next(live):
    looking = asyncio.ensure_future(live.since(""))
    await asyncio.sleep(0)
    live.look_again()
    assert used(await looking) == [1]
    assert used(await live.since("")) == [2]


async def test_a_change_is_seen_although_the_look_after_it_fails(live, monkeypatch):
    await live.since("")
    live.look_again()

    async def fails() -> Sight:
        raise NotADirectoryError

    with monkeypatch.context() as patch:
        patch.setattr(live._eyes, "look", fails)
        with pytest.raises(NotADirectoryError):
            await live.since("")
    assert used(await live.since("")) == [2]


async def test_a_page_is_made_once_for_all_who_wait_for_it(live, monkeypatch):
    made = 0

    def counted(world):
        nonlocal made
        made += 1
        return page(world)

    page = module.page
    monkeypatch.setattr(module, "page", counted)
    said = await asyncio.gather(*(live.since("") for _ in range(20)))
    assert all(used(each) == [1] for each in said)
    assert made == 1


class Opening(Quiet):
    """Eyes and a journal: a start is opened, and its pod made, while somebody looks."""

    starts: tuple[Start, ...] = ()

    async def look(self) -> Sight:
        self.starts = (WAITS,)
        await asyncio.sleep(0)
        return Sight(waiting=(QueuedPod("jhub", "jupyter-bob", place=1, asks="4 GiB", reason="No room."),))

    async def open_starts(self) -> tuple[Start, ...]:
        return self.starts


WAITS = Start(
    id="1", user="bob", server="", group="ml", profile="small", cards=1, vram=Mib(4096), cores=25, asked_at=1.0,
    state=StartState.WAITING, pod="jhub/jupyter-bob",
)  # fmt: skip


async def test_who_waits_as_a_pod_is_in_line_once_from_the_first_look():
    opening: Any = Opening()
    live = Live(opening, opening, opening, default_quota={})
    [(holder, row)] = (await live.since(""))["sections"]["waiting"].items()
    assert (holder, row["group"], row["place"], row["why"]) == ("bob/", "ml", 1, "No room.")


async def test_whose_a_pod_is_is_known_as_long_as_it_is_seen(live, monkeypatch):
    starts = [(replace(WAITS, state=StartState.RUNNING),), ()]

    async def look() -> Sight:
        return Sight(slices=(replace(SEEN, holder="jhub/jupyter-bob"),))

    async def open_starts() -> tuple[Start, ...]:
        return starts.pop(0)

    monkeypatch.setattr(live._eyes, "look", look)
    monkeypatch.setattr(live._records, "open_starts", open_starts)
    for group in ("ml", ""):
        live.look_again()
        [row] = (await live.since(""))["sections"]["slices"].values()
        assert (row["user"], row["group"]) == ("bob", group)
