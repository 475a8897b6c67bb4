"""Whose the processes on a node's cards are, and which of them got around the limiter."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cluster.deviceplugin.cdi import Owner
from cluster.deviceplugin.escapes import EscapeGuard, Seen, compared, end, owner_of
from cluster.deviceplugin.owner import Pod
from hami_hub.core.cards import CardUuid
from hami_hub.core.escapes import SliceUse, find_escapes
from hami_hub.core.slices import SliceId
from hami_hub.core.units import BYTES_PER_MIB, Mib

from .plugin_parts import INDICES, make_slices, placed
from .test_slicepage import fill_slot

UID, OTHER = "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "9c4e28ba-2fa1-11d2-883f-0016d3cca427"
MAIN, SIDE = "a" * 64, "b" * 64
ALICE, HELPER, BOB = (Owner("lab", pod, uid, name) for pod, uid, name in
                      (("alice", UID, "main"), ("alice", UID, "helper"), ("bob", OTHER, "main")))  # fmt: skip
CARD = CardUuid("GPU-0")


def pod_of(**container_ids: str) -> Pod:
    statuses = [{"name": name, "containerID": f"containerd://{found}"} for name, found in container_ids.items()]
    return {
        "metadata": {"name": "alice", "namespace": "lab", "uid": UID, "resourceVersion": "1"},
        "status": {"containerStatuses": statuses},  # type: ignore[typeddict-item]
    }


CGROUPFS = f"0::/kubepods/burstable/pod{UID}/{MAIN}\n"
_POD_SLICE = f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
SYSTEMD = f"0::/../../kubepods-burstable.slice/{_POD_SLICE}/cri-containerd-{MAIN}.scope\n"
VERSION_1 = f"12:memory:/kubepods/pod{UID}/{MAIN}\n1:name=systemd:/kubepods/pod{UID}/{MAIN}\n"


@pytest.mark.parametrize("cgroup", [CGROUPFS, SYSTEMD, VERSION_1], ids=["cgroupfs", "systemd", "version 1"])
def test_a_process_belongs_to_the_container_of_its_control_group(cgroup: str) -> None:
    pods = {UID: pod_of(main=MAIN, helper=SIDE)}
    assert owner_of(cgroup, [HELPER, ALICE, BOB], pods) == ALICE
    assert owner_of(cgroup.replace(MAIN, SIDE), [HELPER, ALICE, BOB], pods) == HELPER


@pytest.mark.parametrize(
    ("cgroup", "owners", "pods", "found"),
    [
        (CGROUPFS, [ALICE, BOB], {}, ALICE),
        (CGROUPFS, [ALICE, HELPER], {}, None),
        (CGROUPFS, [BOB], {UID: pod_of(main=MAIN)}, None),
        (CGROUPFS, [ALICE], {UID: pod_of(main=SIDE, monitor=MAIN)}, None),
        ("0::/system.slice/docker.service\n", [ALICE], {}, None),
        ("", [ALICE], {}, None),
    ],
    ids=["not in the status yet", "one of two, unclear", "no slice", "a container without a slice", "no pod", "ended"],
)
def test_what_is_not_certain_is_nobodys(
    cgroup: str, owners: list[Owner], pods: dict[str, Pod], found: Owner | None
) -> None:
    assert owner_of(cgroup, owners, pods) == found


def test_pages_know_their_processes_by_other_numbers() -> None:
    """The honest process holds more, and is not the one that is blamed."""
    honest, escaped = Seen(4001, 7, CARD, Mib(900), CGROUPFS), Seen(4002, 8, CARD, Mib(500), CGROUPFS)
    page = SliceUse(SliceId(ALICE.key), CARD, Mib(2000), {7: Mib(900), 9: Mib(10)})
    uses, pages = compared([honest, escaped, Seen(1, 1, CARD, Mib(70), "0::/\n")], {ALICE: [page]}, {})
    assert [use.pid for use in uses] == [4001, 4002]
    (escape,) = find_escapes(uses, pages)
    assert (escape.used, escape.accounted, escape.processes) == (1400, 910, ((4002, 500),))


class Told(list[str]):
    def __call__(self, reason: str, text: str, warning: bool) -> None:
        assert (reason, warning) == ("SliceEscaped", True)
        self.append(text)


async def test_an_escape_is_told_once_and_only_where_wished_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = make_slices(tmp_path)
    slices.prepare(BOB, ["slot-0001"], placed("GPU-0", vram=4000), INDICES)
    fill_slot(slices.directory(BOB), owner=1 << 32, held=100 * BYTES_PER_MIB)
    escaped = Seen(4002, 8, CARD, Mib(600), CGROUPFS.replace(UID, OTHER))
    ended, told, counted = list[int](), Told(), list[str]()
    monkeypatch.setattr("cluster.deviceplugin.escapes._look", lambda: [escaped])
    monkeypatch.setattr("cluster.deviceplugin.escapes.end", lambda pid, still: ended.append(pid))
    for wish in (False, True):
        guard = EscapeGuard(slices, dict, end=wish, tell=told, count=counted.append, seconds=0)
        for _ in range(5):
            await guard.look_once()
    said = (
        "lab/bob/main holds 600 MiB of the card GPU-0, of which its slice answers for 100 MiB and may have 4000 MiB: "
        "process 4002 got around the limiter."
    )
    assert told == [said, f"{said} They are ended."]
    assert ended == [4002]
    assert counted == ["GPU-0", "GPU-0"]


def test_a_process_is_ended_only_while_it_is_still_theirs() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        end(process.pid, lambda cgroup: False)
        assert process.poll() is None
        end(process.pid, lambda cgroup: cgroup == Path(f"/proc/{process.pid}/cgroup").read_text())
        assert process.wait(10) == -9
    end(process.pid, lambda cgroup: True)  # one that is gone is no error
