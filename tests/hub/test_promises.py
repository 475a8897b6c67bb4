"""What docs/spawners.md promises of quotas, lifetimes and restarts, in every shape; the rules are tested elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hub_process import Failed, Hub

SMALL = {"profile": "small"}


@pytest.fixture
def budgeted(hub: Hub) -> Iterator[Hub]:
    yield hub
    if not hub.alive:
        hub.begin()
    hub.delete_group("lab")


def test_a_quota_holds_and_is_charged_over_a_restart_of_the_hub(budgeted: Hub) -> None:
    hub = budgeted
    hub.group("lab", "alice", "bob", vram="6GiB")
    hub.start("alice", SMALL)
    for restarted in (False, True):
        if restarted:
            hub.kill()
            hub.begin()
        with pytest.raises(Failed, match=r"hami\.vram"):
            hub.start("bob", SMALL)
    assert list(hub.held()) == ["alice"]
    hub.stop("alice")
    hub.start("bob", SMALL)


def test_a_server_whose_time_is_over_gives_its_slice_back(budgeted: Hub) -> None:
    hub = budgeted
    hub.group("lab", "alice", max_lifetime="3s")
    hub.start("alice", SMALL)
    hub.until_stopped("alice")
    hub.until_held()
