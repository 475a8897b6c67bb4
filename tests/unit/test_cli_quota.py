"""`hami-hub quota` and `hami-hub usage`: strict before anything is written, and plain words when it can't be done.

The hub here is a few lines that answer as JupyterHub does; `tests/hub/test_journal_hub.py` asks a real one.
"""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from hami_hub.cli import main
from hami_hub.cli.quota.edits import EditError, full_key, ours, with_values, without
from hami_hub.cli.quota.hub import HubApi
from hami_hub.core.history import Start, StartState
from hami_hub.core.quota import KEYS, parse_quota
from hami_hub.core.units import Mib
from hami_hub.journal import Journal

TOKEN = "secret"


class FakeHub(ThreadingHTTPServer):
    """Groups as the REST API of JupyterHub shows them."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.groups: dict[str, dict[str, Any]] = {}
        self.may_write = True
        self.puts: list[tuple[str, Any]] = []
        self.meanwhile: list[Any] = []
        self.broken: bytes | None = None
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def add(self, name: str, properties: dict[str, Any] | None = None, users: tuple[str, ...] = ()) -> None:
        self.groups[name] = {"kind": "group", "name": name, "users": list(users), "properties": properties or {}}


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        hub, parts = self.server, urlsplit(self.path)
        if not self._allowed():
            return
        if parts.path == "/hub/api/groups":
            query = parse_qs(parts.query)
            offset, limit = int(query["offset"][0]), min(200, int(query["limit"][0]))
            names = list(hub.groups)[offset : offset + limit]
            more = {"offset": offset + limit} if offset + limit < len(hub.groups) else None
            items = [hub.groups[name] for name in names]
            self._answer(200, {"items": items, "_pagination": {"total": len(hub.groups), "next": more}})
            return
        name = unquote(parts.path.removeprefix("/hub/api/groups/"))
        if name not in hub.groups:
            self._answer(404, {"status": 404, "message": f"No such group: {name}"})
            return
        known = hub.groups[name]
        if hub.meanwhile:  # before the answer is gone: who has it may ask again at once
            hub.meanwhile.pop()()
        self._answer(200, known)

    def do_PUT(self) -> None:
        if not self._allowed():
            return
        if not self.server.may_write:
            self._answer(403, {"status": 403, "message": "Action is not authorized with current scopes"})
            return
        name = unquote(self.path.removeprefix("/hub/api/groups/").removesuffix("/properties"))
        properties = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.puts.append((name, properties))
        self.server.groups[name]["properties"] = properties
        self._answer(200, self.server.groups[name])

    def _allowed(self) -> bool:
        if self.server.broken is not None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.server.broken)
            return False
        if self.headers["Authorization"] != f"token {TOKEN}":
            self._answer(403, {"status": 403, "message": "Missing or invalid credentials."})
            return False
        return True

    def _answer(self, status: int, what: object) -> None:
        body = json.dumps(what).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    fake = FakeHub()
    fake.add("lab", {"hami.vram": "24GiB", "colour": "green"}, ("alice", "bob"))
    fake.add("a/b c", {"hami.servers": 2})
    fake.add("plain")
    yield fake
    fake.shutdown()
    fake.server_close()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    kept = Journal(f"sqlite:///{tmp_path}/j.sqlite", days=0)
    yield kept
    kept.close()


def a_start(id_: str, user: str = "alice", **fields: Any) -> Start:
    usual: dict[str, Any] = {
        "server": "",
        "group": "lab",
        "profile": "small",
        "cards": 1,
        "vram": Mib(16 * 1024),
        "cores": 50,
        "asked_at": time.time() - 3600,
        "state": StartState.RUNNING,
        "started_at": time.time() - 3600,
    }
    return Start(id=id_, user=user, **{**usual, **fields})


def call(hub: FakeHub | None, *arguments: str, journal: Journal | None = None, token: str = TOKEN) -> Result:
    environment = {"JUPYTERHUB_API_TOKEN": token, "HAMI_JOURNAL_URL": journal.url if journal else "/none/j.sqlite"}
    environment["JUPYTERHUB_API_URL"] = f"{hub.url}/hub/api" if hub else "http://127.0.0.1:1"
    return CliRunner().invoke(main, arguments, env=environment, catch_exceptions=False)


# --- reading


def test_list_shows_quotas_and_what_is_used_of_them(hub: FakeHub, journal: Journal) -> None:
    journal.opened(a_start("1"))
    journal.opened(a_start("2", "bob", state=StartState.ENDED, ended_at=time.time()))
    assert journal.flush(60)
    result = call(hub, "quota", "list", journal=journal)
    assert result.exit_code == 0
    assert "16 GiB of 24 GiB" in result.output
    assert "plain" not in result.output
    assert "plain" in call(hub, "quota", "list", "--all").output


def test_without_a_journal_the_limits_are_shown(hub: FakeHub) -> None:
    found = json.loads(call(hub, "quota", "list", "--json").output)
    assert {each["group"]: each["used"] for each in found} == {"lab": None, "a/b c": None}
    assert found[1]["properties"] == {"hami.vram": "24GiB"}


def test_list_for_spreadsheets_takes_no_name_for_a_formula(hub: FakeHub) -> None:
    hub.add("=1+1", {"hami.vram": "1GiB"})
    rows = list(csv.DictReader(io.StringIO(call(hub, "quota", "list", "--csv").output)))
    assert [row["group"] for row in rows] == ["'=1+1", "a/b c", "lab"]
    assert [(row["vram_quota_mib"], row["vram_used_mib"], row["servers_quota"]) for row in rows][1:] == [
        ("", "", "2"),
        ("24576", "", ""),
    ]


def test_all_of_three_hundred_groups_are_read(hub: FakeHub) -> None:
    for number in range(300):
        hub.add(f"group{number:03}", {"hami.servers": "1"})
    assert len(json.loads(call(hub, "quota", "list", "--json").output)) == 302


def test_show_tells_value_use_and_fault(hub: FakeHub, journal: Journal) -> None:
    hub.add("lab", {"hami.vram": "8GiB", "hami.vrom": "1", "Hami.cores": "200", "colour": "green"}, ("alice",))
    journal.opened(a_start("1"))
    assert journal.flush(60)
    output = call(hub, "quota", "show", "lab", journal=journal).output
    assert "lab, 1 member\n" in output
    assert "hami.vrom is no key of a quota. Did you mean hami.vram?" in " ".join(output.split())
    assert "More runs than that: 16 GiB of 8 GiB. Nothing that runs is ended" in output
    assert "colour" not in output
    assert "pays for nothing" in call(hub, "quota", "show", "plain").output


def test_a_name_steers_no_terminal(hub: FakeHub) -> None:
    hub.add("\x1b[31mred\x1b]0;x\x07[bold]", {"hami.profiles": "\x1b[2J"})
    for command in (("list",), ("show", "\x1b[31mred\x1b]0;x\x07[bold]"), ("check",)):
        output = call(hub, "quota", *command).output
        assert "\x1b" not in output
        assert "\x07" not in output
    assert "[bold]" in call(hub, "quota", "list").output


def test_check_finds_what_is_wrong_and_says_so_by_its_exit_code(hub: FakeHub) -> None:
    assert "2 of 3 groups have a quota" in call(hub, "quota", "check").output
    hub.add("wrong", {"hami.vram": "24 apples"})
    result = call(hub, "quota", "check")
    assert result.exit_code == 1
    assert result.output.startswith("wrong: ")
    assert "24 apples" in result.output
    assert list(json.loads(call(hub, "quota", "check", "--json").output)) == ["wrong"]


# --- writing


def test_set_keeps_what_others_wrote(hub: FakeHub) -> None:
    result = call(hub, "quota", "set", "lab", "cores=200", "hami.user.bob.vram = 2GiB", "max-lifetime=8h")
    assert result.exit_code == 0, result.output
    written = {
        "hami.vram": "24GiB",
        "colour": "green",
        "hami.cores": "200",
        "hami.user.bob.vram": "2GiB",
        "hami.max-lifetime": "8h",
    }
    assert hub.puts == [("lab", written)]
    assert "hami.max-lifetime" in result.output


def test_a_group_of_any_name_is_found(hub: FakeHub) -> None:
    assert call(hub, "quota", "set", "a/b c", "servers=3").exit_code == 0
    assert hub.groups["a/b c"]["properties"] == {"hami.servers": "3"}


@pytest.mark.parametrize(
    ("edit", "word"),
    [
        ("vram=24 apples", "24 apples"),
        ("vram=24", "has a unit"),
        ("vrm=24GiB", "Did you mean hami.vram?"),
        ("vram=", "has no value"),
        ("vram", "Write key=value"),
        ("servers=-1", "servers are a whole number"),
        ("user.bob=2GiB", "no exception"),
        ("vram=<b>1GiB</b>", "<b>1GiB</b>"),
    ],
)
def test_a_wrong_value_changes_nothing(hub: FakeHub, edit: str, word: str) -> None:
    result = call(hub, "quota", "set", "lab", "cores=100", edit)
    assert result.exit_code == 1
    assert word in result.output
    assert hub.puts == []


def test_what_was_wrong_before_can_be_mended_one_by_one(hub: FakeHub) -> None:
    hub.add("lab", {"hami.vram": "apples", "hami.cores": "pears"})
    result = call(hub, "quota", "set", "lab", "vram=1GiB")
    assert result.exit_code == 0
    assert "pears" in result.output
    assert call(hub, "quota", "unset", "lab", "cores").exit_code == 0
    assert hub.groups["lab"]["properties"] == {"hami.vram": "1GiB"}


def test_unset_removes_what_is_there_and_names_it_if_it_is_not(hub: FakeHub) -> None:
    assert "hami.vrm is not set. Did you mean hami.vram?" in call(hub, "quota", "unset", "lab", "vrm").output
    assert "Set are: none" in call(hub, "quota", "unset", "plain", "vram").output
    assert hub.puts == []
    assert call(hub, "quota", "unset", "lab", "vram").exit_code == 0
    assert hub.groups["lab"]["properties"] == {"colour": "green"}


def test_two_admins_at_once_are_told(hub: FakeHub) -> None:
    hub.meanwhile.append(lambda: hub.add("lab", {"hami.vram": "1GiB"}))
    result = call(hub, "quota", "set", "lab", "cores=100")
    assert result.exit_code == 1
    assert "Somebody else has changed the group lab" in result.output
    assert hub.puts == []


# --- trying


def test_dry_run_tells_what_would_have_been_refused_and_writes_nothing(hub: FakeHub, journal: Journal) -> None:
    now = time.time()
    journal.opened(a_start("1", asked_at=now - 500))
    journal.opened(a_start("2", "bob", asked_at=now - 400))
    journal.opened(a_start("3", "bob", asked_at=now - 300, group="other"))
    assert journal.flush(60)
    assert "refused 1 of 2 starts, of 1 person." in call(hub, "quota", "dry-run", "lab", journal=journal).output
    output = call(hub, "quota", "dry-run", "lab", "vram=8GiB", journal=journal).output
    assert "refused 2 of 2 starts, of 2 people." in output
    assert "hami.vram" in output
    assert "none of 2" in call(hub, "quota", "dry-run", "lab", "--unset", "vram", journal=journal).output
    found = json.loads(call(hub, "quota", "dry-run", "lab", "servers=0", "--json", journal=journal).output)
    assert (found["judged"], found["users"]) == (2, ["alice", "bob"])
    assert "24 apples" in call(hub, "quota", "dry-run", "lab", "vram=24 apples", journal=journal).output
    assert hub.puts == []


def test_dry_run_without_a_journal_says_so(hub: FakeHub) -> None:
    result = call(hub, "quota", "dry-run", "lab")
    assert result.exit_code == 1
    assert "There is no journal at /none/j.sqlite" in result.output


# --- what can be wrong with a hub


def test_no_hub() -> None:
    result = call(None, "quota", "list")
    assert result.exit_code == 1
    assert "No hub answers at http://127.0.0.1:1/hub/api: Connection refused. Start it, or give" in result.output


def test_no_token_and_a_wrong_one(hub: FakeHub, tmp_path: Path) -> None:
    assert "A token of the hub is needed" in call(hub, "quota", "list", token="").output
    assert "list:groups: use a token of an admin" in call(hub, "quota", "list", token="wrong").output
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert call(hub, "quota", "list", "--token-file", str(tmp_path / "token"), token="").exit_code == 0
    result = call(hub, "quota", "list", "--token-file", str(tmp_path / "none"))
    assert "can't be read" in result.output


def test_somebody_who_may_not_write(hub: FakeHub) -> None:
    hub.may_write = False
    assert "It needs the scope groups!group=lab" in call(hub, "quota", "set", "lab", "cores=100").output


def test_no_such_group_names_the_nearest(hub: FakeHub) -> None:
    assert 'There is no group "lba". Did you mean "lab"?' in call(hub, "quota", "show", "lba").output
    assert 'There is no group "zzz". There are: a/b c, lab, plain.' in call(hub, "quota", "show", "zzz").output
    hub.groups.clear()
    assert "There are no groups yet" in call(hub, "quota", "set", "lab", "vram=1GiB").output


def test_something_else_that_answers(hub: FakeHub) -> None:
    hub.broken = b"<html>welcome</html>"
    assert "is no JupyterHub" in call(hub, "quota", "list").output


@pytest.mark.parametrize(
    ("url", "api"),
    [
        ("http://h:8000", "http://h:8000/hub/api"),
        ("http://h:8000/", "http://h:8000/hub/api"),
        ("https://h/hub/", "https://h/hub/api"),
        ("https://h/jupyter/hub/api", "https://h/jupyter/hub/api"),
    ],
)
def test_a_hubs_address_may_be_any_of_its_own(url: str, api: str) -> None:
    assert HubApi(url, "t").url == api


@pytest.mark.parametrize("url", ["h:8000", "ftp://h", "", "http://"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(click.ClickException, match="is not the address of a hub"):
        HubApi(url, "t")


# --- the pure part


@given(
    st.dictionaries(st.sampled_from([*KEYS, "colour", "hami.user.a.b.vram"]), st.sampled_from(list(KEYS.values()))),
    st.sampled_from(sorted(KEYS)),
)
def test_setting_and_unsetting_gives_back_what_was_there(properties: dict[str, str], key: str) -> None:
    properties.pop(key, None)
    changed = with_values(properties, [f"{key.removeprefix('hami.')}={KEYS[key]}"])
    assert {each: value for each, value in changed.items() if each != key} == properties
    assert without(changed, [key]) == properties


@given(st.text(), st.text())
def test_whatever_is_typed_is_an_edit_that_parses_or_a_sentence(key: str, value: str) -> None:
    changed, said = {}, ""
    try:
        changed = with_values({}, [f"{key}={value}"])
    except EditError as error:
        said = str(error)
    assert bool(changed) != bool(said)
    assert not parse_quota(changed)[1]
    assert ours(changed) == list(changed)


def test_keys_may_be_short() -> None:
    assert full_key("vram") == full_key("hami.vram") == "hami.vram"


# --- usage


def test_usage_by_user_and_group(hub: FakeHub, journal: Journal) -> None:
    now = time.time()
    journal.opened(a_start("1", started_at=now - 7200, asked_at=now - 7200))
    journal.opened(a_start("2", "bob", group="", started_at=None, state=StartState.REFUSED, ended_at=now))
    assert journal.flush(60)
    found = json.loads(call(None, "usage", "--json", journal=journal).output)
    assert [(each["key"], round(each["gib_hours"]), each["refused"]) for each in found] == [
        ("alice", 32, 0),
        ("bob", 0, 1),
    ]
    rows = list(csv.reader(io.StringIO(call(None, "usage", "--csv", "--by", "group", journal=journal).output)))
    assert [row[0] for row in rows] == ["group", "lab", ""]
    output = call(None, "usage", "--by", "group", journal=journal).output
    assert "(default quota)" in output
    assert "all" in output


def test_usage_of_some_days_only(journal: Journal) -> None:
    day = time.mktime((2026, 3, 5, 0, 0, 0, 0, 0, -1))
    journal.opened(a_start("1", asked_at=day, started_at=day, ended_at=day + 7200, state=StartState.ENDED))
    assert journal.flush(60)
    within = call(None, "usage", "--from", "2026-03-05", "--to", "2026-03-05T01:00", "--json", journal=journal)
    assert [round(each["gib_hours"], 3) for each in json.loads(within.output)] == [16]
    before = call(None, "usage", "--from", "2026-03-04", "--to", "2026-03-05", journal=journal)
    assert "no server was started" in before.output
    for wrong in (["--from", "2026-03-05", "--to", "2026-03-05"], ["--from", "2100-01-01"]):
        assert "That time is empty" in call(None, "usage", *wrong, journal=journal).output


def test_usage_of_a_journal_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "j.sqlite").write_text("text")
    result = CliRunner().invoke(main, ["usage", "--journal", str(tmp_path / "j.sqlite")])
    assert (result.exit_code, "is damaged" in result.output) == (1, True)
    result = CliRunner().invoke(main, ["usage", "--journal", "sqlite://"])
    assert (result.exit_code, "in memory" in result.output) == (1, True)
