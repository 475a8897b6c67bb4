"""Who waits is told why, is served in order, and is served as soon as a slice is given back, however that came.

No hub here asks of its own accord whether a server still runs (`poll_interval` is an hour).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hub_process import Hub

# A program that has the slice's page in its memory, as every program has that uses the card.
USER_OF_THE_CARD = """
import mmap, os, signal
signal.signal(signal.SIGTERM, {term})
page = mmap.mmap(os.open(os.environ["HAMI_SLICE_DIR"] + "/usage", os.O_RDWR), 0)
print("ready", flush=True)
signal.pause()
"""
STUBBORN, MEEK = USER_OF_THE_CARD.format(term="signal.SIG_IGN"), USER_OF_THE_CARD.format(term="signal.SIG_DFL")


def test_the_next_one_waits_for_the_whole_card_with_the_reason_and_starts_when_it_is_free(hub: Hub) -> None:
    hub.start("alice", {"profile": "whole"})
    hub.ask("bob", {"profile": "small"})
    assert hub.until_waiting("bob") == (
        "You are 1st in line. 4 GiB · 25 % is not free now: one server has all of the Tesla T4. "
        "Wait until a server stops, or pick another profile."
    )
    hub.ask("carol", {"profile": "half"})
    assert hub.until_waiting("carol").startswith("You are 2nd in line. 8 GiB · 50 % is not free now")
    assert list(hub.held()) == ["alice"]
    with hub.followed("bob") as said:
        hub.stop("alice")
    hub.until_started("bob")
    assert "You have 4 GiB · 25 % of a Tesla T4. Your server is starting." in said
    hub.until_started("carol")
    hub.until_held("bob", "carol")


def test_who_came_first_is_served_first(hub: Hub) -> None:
    hub.start("alice", {"profile": "small"})
    hub.ask("bob", {"profile": "whole"})
    hub.until_waiting("bob")
    hub.ask("carol", {"profile": "small"})
    assert hub.until_waiting("carol") == "You are 2nd in line. There is room, but 1 server ahead of you waits for it."
    hub.stop("alice")
    hub.until_started("bob")
    hub.stop("bob")
    hub.until_started("carol")


def test_a_server_without_a_gpu_waits_for_nobody(hub: Hub) -> None:
    hub.start("alice", {"profile": "whole"})
    hub.ask("bob", {"profile": "whole"})
    hub.until_waiting("bob")
    hub.start("carol", {"profile": "cpu"})


def test_who_stops_waiting_leaves_the_line(hub: Hub) -> None:
    hub.start("alice", {"profile": "small"})
    hub.ask("bob", {"profile": "whole"})
    hub.until_waiting("bob")
    hub.stop("bob")
    hub.start("carol", {"profile": "half"})
    assert sorted(hub.held()) == ["alice", "carol"]
    hub.start("bob", {"profile": "cpu"})


def test_a_start_that_is_cancelled_gives_its_slice_back(hub: Hub) -> None:
    hub.ask("slow", {"profile": "whole"})
    hub.until_held("slow")
    hub.stop("slow")
    hub.until_held()
    hub.start("alice", {"profile": "whole"})


def test_a_server_that_is_killed_gives_its_slice_back_at_once(hub: Hub) -> None:
    hub.start("alice", {"profile": "whole"})
    hub.ask("bob", {"profile": "whole"})
    hub.until_waiting("bob")
    hub.kill_server("alice")
    hub.until_started("bob")
    hub.until_held("bob")
    hub.until_stopped("alice")


@pytest.mark.parametrize("kernel", [MEEK, STUBBORN], ids=["meek", "stubborn"])
def test_kernels_that_outlive_their_server_are_ended_before_the_next_one_starts(hub: Hub, kernel: str) -> None:
    hub.start("alice", {"profile": "whole"})
    pid, said = hub.begin_process("alice", kernel)
    assert said == "ready"
    hub.ask("bob", {"profile": "whole"})
    hub.until_waiting("bob")
    hub.kill_server("alice")
    hub.until_started("bob")
    assert not _runs(hub, pid)


def test_what_a_stopped_server_leaves_behind_is_ended(hub: Hub) -> None:
    hub.start("alice", {"profile": "whole"})
    pid, _ = hub.begin_process("alice", STUBBORN)
    hub.stop("alice")
    hub.until_held()
    assert not _runs(hub, pid)


def test_twenty_people_at_once_never_get_more_than_the_card_has(hub: Hub) -> None:
    people = [f"user{number}" for number in range(20)]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda user: hub.ask(user, {"profile": "small"}), people))
        running = [user for user in people if hub.servers(user).get("", {}).get("ready")]
        while len(running) < 3:
            running = [user for user in people if hub.servers(user).get("", {}).get("ready")]
        held = hub.held()
        assert len(held) == 3  # 4 GiB of 15 each
        assert sum(share.vram for placement in held.values() for share in placement.shares) <= 15360
        list(pool.map(hub.stop, [user for user in people if user not in running]))
    assert sorted(hub.held()) == sorted(running)


def _runs(hub: Hub, pid: int) -> bool:
    state = hub.inside("sh", "-c", f"cut -d' ' -f3 /proc/{pid}/stat 2>/dev/null || echo gone").strip()
    return state not in ("gone", "Z", "X", "")
