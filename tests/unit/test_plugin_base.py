"""What brings the cards themselves into a container: the node's own CDI specification, or the simulated card's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.deviceplugin.base import BaseError, NvidiaBase, SimulatedBase
from hami_hub.core.cards import CardUuid

UUID, OTHER = CardUuid("GPU-0"), CardUuid("GPU-1")
INDICES = {UUID: "0", OTHER: "1"}


def nvidia(*names: str, version: str = "0.7.0") -> dict[str, Any]:
    """As `nvidia-ctk cdi generate` writes it: what all need, then each card's device nodes."""
    return {
        "cdiVersion": version,
        "kind": "nvidia.com/gpu",
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void"],
            "deviceNodes": [{"path": "/dev/nvidiactl"}],
            "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": ["update-ldcache"]}],
            "mounts": [{"hostPath": "/lib/libcuda.so.1", "containerPath": "/lib/libcuda.so.1", "options": ["ro"]}],
        },
        "devices": [
            {"name": name, "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia-{name}"}]}} for name in names
        ],
    }


def base_of(folder: Path, **files: Any) -> NvidiaBase:
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return NvidiaBase([folder])


@pytest.mark.parametrize(
    ("names", "path"),
    [
        (("0", "1", "all"), "/dev/nvidia-1"),
        (("GPU-0", "GPU-1", "all"), "/dev/nvidia-GPU-1"),
        (("gpu0", "gpu1"), "/dev/nvidia-gpu1"),
        (("0", "1", "GPU-0", "GPU-1"), "/dev/nvidia-GPU-1"),
    ],
    ids=["by index", "by UUID", "by type and index", "by both"],
)
def test_a_container_gets_its_own_card_and_no_other(tmp_path: Path, names: tuple[str, ...], path: str) -> None:
    found = base_of(tmp_path, nvidia=nvidia(*names)).cards([OTHER], INDICES)
    assert found.edits["deviceNodes"] == [{"path": "/dev/nvidiactl"}, {"path": path}]
    assert found.edits["hooks"][0]["args"] == ["update-ldcache"]
    assert found.version == "0.7.0"


def test_two_cards_share_what_all_need(tmp_path: Path) -> None:
    found = base_of(tmp_path, nvidia=nvidia("0", "1")).cards([UUID, OTHER], INDICES)
    assert [node["path"] for node in found.edits["deviceNodes"]] == ["/dev/nvidiactl", "/dev/nvidia-0", "/dev/nvidia-1"]
    assert len(found.edits["mounts"]) == 1


def test_a_specification_that_is_made_anew_counts_at_once(tmp_path: Path) -> None:
    base = base_of(tmp_path, nvidia=nvidia("0"))
    with pytest.raises(BaseError, match="doesn't name the card GPU-1"):
        base.cards([OTHER], INDICES)
    (tmp_path / "nvidia.yaml").write_text(yaml.safe_dump(nvidia("0", "1")))
    assert base.cards([OTHER], INDICES).edits


def test_an_old_version_is_raised_to_what_our_own_file_takes(tmp_path: Path) -> None:
    assert base_of(tmp_path, nvidia=nvidia("0", version="0.3.0")).cards([UUID], INDICES).version == "0.6.0"


def test_other_specifications_and_broken_ones_are_nothing_to_us(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("a: [")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    (tmp_path / "hami-slice-slot-0000.json").write_text(json.dumps(nvidia("0")))
    (tmp_path / "note.txt").write_text("kind: nvidia.com/gpu")
    base = base_of(tmp_path, other={**nvidia("0"), "kind": "vendor.com/net"}, empty=None)
    with pytest.raises(BaseError, match="nvidia-ctk cdi generate"):
        base.cards([UUID], INDICES)


def test_without_the_folder_there_is_a_plain_sentence(tmp_path: Path) -> None:
    with pytest.raises(BaseError, match="There is no CDI specification"):
        NvidiaBase([tmp_path / "none"]).cards([UUID], INDICES)


def test_the_simulated_card_brings_its_libraries_and_the_place_where_processes_meet() -> None:
    base = SimulatedBase(Path("/v/sim.1"), Path("/v/sim"), Path("/run/hami/sim"), profile="t4", count=2)
    edits = base.cards([UUID], INDICES).edits
    assert {mount["containerPath"]: "rw" in mount["options"] for mount in edits["mounts"]} == {
        "/v/sim": False,
        "/run/hami/sim": True,
    }
    assert set(edits["env"]) == {
        "LD_LIBRARY_PATH=/v/sim",
        "HAMI_SIM_DIR=/run/hami/sim",
        "HAMI_SIM_PROFILE=t4",
        "HAMI_SIM_CARDS=2",
        "CUDA_VISIBLE_DEVICES=GPU-0",
    }
