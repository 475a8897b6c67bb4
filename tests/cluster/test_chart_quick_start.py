"""The quick start in docs/kubernetes.md: its commands are run as they stand there, and print what it says."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.hami import TAINT, Hami
from tests.cluster.rig import programs

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def bare(hami: Hami) -> Iterator[Hami]:
    """The cluster as a newcomer has it: nothing installed, no node labelled or tainted."""
    hami.uninstall()
    hami.label("node0", on=False)
    hami.cluster.kubectl("taint", "node", "node0", f"{TAINT}-")
    yield hami
    hami.cluster.kubectl("delete", "pods", "--all", "-n", "default", "--grace-period=1")
    hami.cluster.kubectl("taint", "node", "node0", f"{TAINT}=present:NoSchedule", "--overwrite")
    hami.install()
    hami.cluster.kubectl("label", "node", "node0", "gpu=on", "--overwrite")
    hami.wait_cards()


def test_quick_start(bare: Hami) -> None:
    text = (ROOT / "docs" / "kubernetes.md").read_text()
    section = text.split("## Quick start")[1].split("\n## ")[0]
    blocks = BLOCK.findall(section)
    commands = "".join(block for kind, block in blocks if kind == "sh")
    promised = [line for kind, block in blocks if kind == "text" for line in block.splitlines()]
    path = f"{programs.folder()}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(bare.cluster.kubeconfig)}
    result = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", commands],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr + bare.describe()
    assert [line for line in promised if line not in result.stdout] == [], result.stdout
