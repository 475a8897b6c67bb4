"""Quotas read, tried and written: strictly, and never over somebody else's change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from hami_hub.core.history import Start, StartState
from hami_hub.core.units import Mib
from hami_hub.journal import Journal, JournalError, Reader
from hami_hub.service import records as module
from hami_hub.service.hubapi import HubError
from hami_hub.service.model import GroupSeen, World
from hami_hub.service.quotas import QuotaError, Quotas, texts_of, version_of
from hami_hub.service.records import Records

NOW = float(int(time.time()))  # a journal forgets what is long ago


class HubDouble:
    """Keeps groups, slowly enough that two writers meet."""

    def __init__(self, **groups: dict[str, Any]) -> None:
        self.groups: dict[str, Mapping[str, Any]] = dict(groups)
        self.tokens: list[str] = []

    async def group(self, name: str) -> GroupSeen:
        await asyncio.sleep(0)
        if name not in self.groups:
            raise HubError(f"There is no group {name}.", 404)
        return GroupSeen(name, dict(self.groups[name]), 3)

    async def set_properties(self, name: str, properties: Mapping[str, Any], token: str) -> GroupSeen:
        await asyncio.sleep(0)
        self.groups[name] = dict(properties)
        self.tokens.append(token)
        return await self.group(name)


class LiveDouble:
    def __init__(self, *starts: Start, groups: tuple[GroupSeen, ...] = ()) -> None:
        self._world = World(starts=starts, groups=groups)
        self.again = 0

    async def world(self) -> World:
        return self._world

    def look_again(self) -> None:
        self.again += 1


def start(number: int, gib: int, *, ago: float, lasted: float | None = 1.0, group: str = "ml") -> Start:
    asked = NOW - ago * 3600
    return Start(
        id=str(number),
        user=f"user{number % 3}",
        server="",
        group=group,
        profile="p",
        cards=1,
        vram=Mib(gib * 1024),
        cores=0,
        asked_at=asked,
        started_at=asked,
        ended_at=None if lasted is None else asked + lasted * 3600,
        state=StartState.RUNNING if lasted is None else StartState.ENDED,
    )


@pytest.fixture
def made(tmp_path):
    """`made(HubDouble(…), live, starts)`: quotas over a real journal."""
    journals = []

    def make(hub: HubDouble, live: LiveDouble | None = None, starts: tuple[Start, ...] | None = ()) -> Quotas:
        url = f"sqlite:///{tmp_path}/journal.sqlite"
        if starts is not None:
            journal = Journal(url)
            journals.append(journal)
            for each in starts:
                journal.opened(each)
            assert journal.flush(60)
        records = Records(Reader(url), lambda: NOW)
        return Quotas(hub, records, live or LiveDouble(), lambda: NOW)  # type: ignore[arg-type]

    yield make
    for journal in journals:
        journal.close()


async def test_a_quota_is_written_and_other_properties_stay(made):
    hub, live = HubDouble(ml={"hami.vram": "8GiB", "hami.cores": "50", "owner": "mona"}), LiveDouble()
    quotas = made(hub, live)
    seen = (await quotas.read("ml"))["version"]
    said = await quotas.write("ml", {"hami.vram": "24GiB"}, seen=seen, token="ada's")
    assert hub.groups["ml"] == {"owner": "mona", "hami.vram": "24GiB"}
    assert said["properties"] == {"hami.vram": "24GiB"}
    assert said["version"] == version_of(hub.groups["ml"]) != seen
    assert hub.tokens == ["ada's"]
    assert live.again == 1


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param({"hami.vram": "24GB"}, id="decimal unit"),
        pytest.param({"hami.vram": "-1GiB"}, id="negative"),
        pytest.param({"hami.vram": "9" * 40 + "GiB"}, id="huge"),
        pytest.param({"hami.vram": ["24GiB"]}, id="list"),
        pytest.param({"hami.vram": {"a": 1}}, id="object"),
        pytest.param({"hami.vram": True}, id="truth"),
        pytest.param({"hami.vram": ""}, id="empty"),
        pytest.param({"hami.vrma": "24GiB"}, id="misspelt"),
        pytest.param({"Hami.vram": "24GiB"}, id="upper case"),
        pytest.param({"hami.max-lifetime": "8"}, id="no unit"),
        pytest.param({"hami.vram": "<script>alert(1)</script>"}, id="markup"),
    ],
)
async def test_a_wrong_quota_is_never_written(made, texts):
    hub = HubDouble(ml={"hami.vram": "8GiB"})
    with pytest.raises(QuotaError) as caught:
        await made(hub).write("ml", texts, seen="*", token="t")
    assert caught.value.status == 422
    (fault,) = caught.value.said["faults"]
    assert fault["key"] in texts
    assert fault["text"].endswith((".", "?"))
    assert hub.groups["ml"] == {"hami.vram": "8GiB"}


async def test_who_was_slower_is_told_what_it_is_now(made):
    hub = HubDouble(ml={"hami.vram": "8GiB"})
    quotas = made(hub)
    seen = (await quotas.read("ml"))["version"]
    await quotas.write("ml", {"hami.vram": "24GiB", "hami.cores": "100"}, seen=seen, token="ada")
    with pytest.raises(QuotaError) as caught:
        await quotas.write("ml", {"hami.vram": "32GiB"}, seen=seen, token="bea")
    assert caught.value.status == 409
    assert str(caught.value) == (
        "Somebody has changed this group meanwhile, so yours was not saved: "
        "hami.cores is 100 now; hami.vram is 24GiB now."
    )
    assert caught.value.said["properties"] == {"hami.vram": "24GiB", "hami.cores": "100"}
    assert hub.groups["ml"]["hami.vram"] == "24GiB"


async def test_of_many_writers_at_once_one_wins(made):
    hub = HubDouble(ml={})
    quotas = made(hub)
    seen = (await quotas.read("ml"))["version"]
    writes = [quotas.write("ml", {"hami.vram": f"{n}GiB"}, seen=seen, token="t") for n in range(1, 21)]
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert sum(isinstance(result, dict) for result in results) == 1
    assert all(result.status == 409 for result in results if isinstance(result, QuotaError))
    assert len(hub.tokens) == 1


async def test_a_change_of_other_properties_counts_too(made):
    hub = HubDouble(ml={"owner": "mona"})
    quotas = made(hub)
    seen = (await quotas.read("ml"))["version"]
    hub.groups["ml"] = {"owner": "nora"}
    with pytest.raises(QuotaError, match="the group's other properties were changed"):
        await quotas.write("ml", {}, seen=seen, token="t")


async def test_a_group_that_is_not_there_is_said(made):
    with pytest.raises(HubError, match="There is no group nobody"):
        await made(HubDouble()).write("nobody", {}, seen="*", token="t")


@pytest.mark.parametrize("said", [None, [], "hami.vram", 3, [["hami.vram", "1GiB"]]])
def test_what_is_no_object_is_refused(said):
    with pytest.raises(QuotaError, match="A quota is a JSON object of texts"):
        texts_of(said)


def test_other_keys_are_not_the_pages_business():
    with pytest.raises(QuotaError, match='"owner" is no key of a quota'):
        texts_of({"hami.vram": "1GiB", "owner": "me"})


def test_null_takes_a_key_away():
    assert texts_of({"hami.vram": "1GiB", "hami.cores": None}) == {"hami.vram": "1GiB"}


# --- trying out ------------------------------------------------------------------------------------------------------


async def test_a_dry_run_says_whom_it_would_have_refused(made):
    starts = tuple(start(number, 8, ago=100 - number, lasted=10) for number in range(6))
    said = await made(HubDouble(ml={}), starts=starts).try_out("ml", {"hami.vram": "16GiB"})
    assert said["text"] == "In the last 30 days this would have refused 4 of 6 starts, of 3 people."
    assert said["judged"] == 6
    assert [each["key"] for each in said["refused"]] == ["hami.vram"] * 4
    assert said["refused"][0]["at"] > said["refused"][-1]["at"]


async def test_a_wrong_quota_is_not_tried_but_explained(made):
    said = await made(HubDouble(ml={})).try_out("ml", {"hami.vram": "16"})
    assert [fault["key"] for fault in said["faults"]] == ["hami.vram"]
    assert "text" not in said


async def test_a_quota_below_what_runs_says_that_it_runs_on(made):
    live = LiveDouble(
        start(1, 8, ago=1, lasted=None),
        start(2, 8, ago=1, lasted=None),
        groups=(GroupSeen("ml", {"hami.vram": "24GiB"}),),
    )
    said = await made(HubDouble(ml={}), live).try_out("ml", {"hami.vram": "8GiB", "hami.servers": "2"})
    assert said["now"] == (
        "More is in use now than that: 16 GiB of VRAM in use, 8 GiB of VRAM allowed. "
        "It runs on, and nothing new starts until it is less."
    )


async def test_without_a_journal_the_dry_run_says_so(made):
    said = await made(HubDouble(ml={}), starts=None).try_out("ml", {"hami.vram": "8GiB"})
    assert said["text"].startswith("What it would have refused isn't known. There is no journal at ")
    assert said["judged"] is None


# --- the journal as the service reads it -----------------------------------------------------------------------------


async def test_a_journal_that_goes_away_leaves_what_was_known(tmp_path):
    url = f"sqlite:///{tmp_path}/j.sqlite"
    journal = Journal(url)
    journal.opened(start(1, 4, ago=1, lasted=None))
    assert journal.flush(60)
    journal.close()
    records = Records(Reader(url))
    assert len(await records.open_starts()) == 1
    for path in tmp_path.iterdir():
        path.write_bytes(b"no database" * 1000)
    assert len(await records.open_starts()) == 1
    assert "damaged" in records.problem


async def test_many_who_ask_the_same_are_answered_by_one_look_however_long_it_takes(monkeypatch):
    asked, now = 0, [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(time=time.time, monotonic=lambda: now[0]))

    class Slow(Reader):
        def starts(self, t0: float, t1: float, **_: Any) -> tuple[Start, ...]:
            nonlocal asked
            asked += 1
            now[0] += 60
            return ()

    records = Records(Slow(""))
    await asyncio.gather(*(records.starts(0, 1) for _ in range(50)))
    assert asked == 1
    now[0] += 60
    await records.starts(0, 1)
    assert asked == 2


async def test_what_is_open_is_never_an_earlier_answer(tmp_path):
    url = f"sqlite:///{tmp_path}/j.sqlite"
    journal, records = Journal(url), Records(Reader(url))
    for number in (1, 2):
        journal.opened(start(number, 4, ago=1, lasted=None))
        assert journal.flush(60)
        assert len(await records.open_starts()) == number
    journal.close()


async def test_questions_that_no_journal_answers_leave_nothing_behind():
    records = Records(Reader(""))
    for at in range(50):
        with pytest.raises(JournalError):
            await records.starts_of("alice", at, at + 1)
    assert not records._locks
    assert not records._answers
