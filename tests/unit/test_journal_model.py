"""Whatever a hub tells its journal, dies of, and takes up again: what is read is what a dictionary would have kept."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from hami_hub.core.history import Start, StartState
from hami_hub.core.units import Mib
from hami_hub.journal import Journal, Reader

_ENDS = st.sampled_from([StartState.ENDED, StartState.FAILED, StartState.CANCELLED])


class AHub(RuleBasedStateMachine):
    """A hub with a journal, and `kept`: what it should say."""

    running = Bundle("running")

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hami-journal-"))
        self.journal = self._journal()
        self.kept: dict[str, Start] = {}
        self.time = 1000.0

    @rule(target=running, user=st.text(max_size=5), words=st.text(max_size=20))
    def opens(self, user: str, words: str) -> str:
        self.time += 1
        start = Start(
            id=f"{len(self.kept)}-{self.time:g}", user=_storable(user), server="", group="", profile="small", cards=1,
            vram=Mib(1), cores=1, asked_at=self.time, state=StartState.WAITING, words=_storable(words),
        )  # fmt: skip
        self.journal.opened(start)
        self.kept[start.id] = start
        return start.id

    @rule(id_=running, position=st.integers(0, 5))
    def waits(self, id_: str, position: int) -> None:
        self._change(id_, position=position)

    @rule(id_=running)
    def runs(self, id_: str) -> None:
        self._change(id_, state=StartState.RUNNING, started_at=self.time, placed=("GPU-a",), position=0)

    @rule(id_=consumes(running), state=_ENDS)
    def ends(self, id_: str, state: StartState) -> None:
        self._change(id_, state=state, ended_at=self.time)

    @rule()
    def is_read(self) -> None:
        if not self.kept:
            return  # nobody has made a file yet
        assert self.journal.flush(30)
        found = {start.id: start for start in Reader(self.journal.url).starts(0, 1e12)}
        assert found == self.kept

    @rule()
    def dies_and_begins_again(self) -> None:
        """What runs is taken up, as a spawner's state has it; what did not is closed."""
        assert self.journal.flush(30)
        self.journal.close()
        self.time += 10
        self.journal = self._journal()
        going = {id_: start for id_, start in self.kept.items() if start.state is StartState.RUNNING}
        for start in going.values():
            self.journal.restored(replace(start, asked_at=0.0, words="", position=3))
        self.journal.close_strays(going, self.time)
        for id_, start in self.kept.items():
            if start.state.open and id_ not in going:
                self.kept[id_] = replace(
                    start, state=StartState.FAILED, ended_at=self.time, position=0, reason="hami-hub-restarted",
                    words="The hub was restarted before the server ran.",
                )  # fmt: skip
            elif id_ in going:
                self.kept[id_] = replace(start, reason="", words="")

    @rule()
    def loses_its_file(self) -> None:
        """What is open is in the next one."""
        if self.kept:
            assert self.journal.flush(30)
            for path in self.folder.iterdir():
                path.unlink()
            self.kept = {id_: start for id_, start in self.kept.items() if start.state.open}
            self.opens(user="x", words="")

    @invariant()
    def knows_what_is_open(self) -> None:
        if hasattr(self, "kept"):
            assert {start.id for start in self.journal.open_now()} == {
                id_ for id_, start in self.kept.items() if start.state.open
            }

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.is_read()
            self.journal.close()
            shutil.rmtree(self.folder)

    def _change(self, id_: str, **fields: object) -> None:
        if id_ in self.kept and self.kept[id_].state.open:
            self.time += 1
            self.journal.changed(id_, **fields)
            self.kept[id_] = replace(self.kept[id_], **fields)  # type: ignore[arg-type]

    def _journal(self) -> Journal:
        return Journal(f"sqlite:///{self.folder}/j.sqlite", days=0)


def _storable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "")


TestAHub = AHub.TestCase
TestAHub.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
