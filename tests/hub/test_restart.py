"""Servers go on when the hub ends, however it ends, and so do their slices; what nobody has is given back."""

from __future__ import annotations

import os
import shutil

import pytest
from hub_process import Failed, Hub
from shapes import IN_ONE_SHAPE, SHAPES


def test_running_servers_keep_their_slices_and_give_them_back_as_ever(hub: Hub) -> None:
    hub.start("alice", {"profile": "half"})
    hub.start("carol", {"profile": "cpu"})
    before = hub.held()
    hub.kill()
    hub.begin()
    assert hub.held() == before
    assert hub.servers("alice")[""]["ready"]
    hub.ask("bob", {"profile": "half"})
    assert "the Tesla T4 has 7 GiB free, 8 GiB are asked for" in hub.until_waiting("bob")
    hub.kill_server("alice")
    hub.until_started("bob")
    hub.until_stopped("alice")
    hub.stop("carol")
    hub.until_held("bob")


def test_what_ends_or_is_starting_while_the_hub_dies_leaves_nothing_reserved(hub: Hub) -> None:
    hub.start("alice", {"profile": "small"})
    hub.ask("slow", {"profile": "half"})
    hub.until_held("alice", "slow")
    hub.until_noted("slow")
    hub.kill()
    hub.kill_server("alice")
    assert sorted(hub.held()) == ["alice", "slow"]
    hub.begin()
    hub.start("bob", {"profile": "whole"})
    hub.until_held("bob")
    assert hub.processes_of("slow") == []


@IN_ONE_SHAPE
def test_a_hub_that_dies_while_people_wait_forgets_them(hub: Hub) -> None:
    hub.start("alice", {"profile": "whole"})
    hub.ask("bob", {"profile": "whole"})
    hub.until_waiting("bob")
    hub.kill()
    hub.begin()
    assert list(hub.held()) == ["alice"]
    hub.stop("alice")
    hub.start("carol", {"profile": "whole"})


@IN_ONE_SHAPE
def test_a_slice_whose_pages_are_gone_still_counts_while_its_server_runs(hub: Hub) -> None:
    hub.start("alice", {"profile": "half"})
    hub.kill()
    shutil.rmtree(hub.directory("alice"))
    hub.begin()
    hub.ask("bob", {"profile": "half"})
    assert "7 GiB free" in hub.until_waiting("bob")
    hub.stop("alice")
    hub.until_started("bob")


@IN_ONE_SHAPE
@pytest.mark.parametrize("page", ["limits", "usage"])
def test_a_damaged_page_holds_nothing_up(hub: Hub, page: str) -> None:
    hub.start("alice", {"profile": "half"})
    os.truncate(hub.directory("alice") / page, 10)
    hub.kill()
    hub.begin()
    hub.stop("alice")
    hub.start("bob", {"profile": "whole"})


@IN_ONE_SHAPE
def test_two_hubs_never_share_a_folder(hub: Hub) -> None:
    hub.start("alice", {"profile": "small"})
    same = {"slice_root": str(hub.slice_root)}
    with (
        Hub(spawner=SHAPES["simple"], GpuSlices=same) as other,
        pytest.raises(Failed, match="Another hub uses the slices' folder"),
    ):
        other.start("bob", {"profile": "small"})
    assert list(hub.held()) == ["alice"]
    assert hub.call("alice", "env")["HAMI_SLICE_DIR"] == str(hub.directory("alice"))
