"""Which cards the hub is going to see, asked in a process of its own: the simulated driver is found by a variable that
counts only when a process starts.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Mapping

import click

from ...core.units import Mib, format_gib

_SECONDS = 60


def describe_cards(environment: Mapping[str, str]) -> str:
    """The cards in a few words: "Tesla T4, 15 GiB", "2 x NVIDIA H200, 140.4 GiB".

    Raises:
        click.ClickException: NVML fails in that environment.
    """
    command = [sys.executable, "-m", "hami_hub.cli", "smi"]
    command += ["--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    answer = subprocess.run(
        command, env=dict(environment), capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
    )
    if answer.returncode != 0:
        reason = (answer.stderr.strip().splitlines() or ["No reason given."])[-1].removeprefix("Error: ")
        raise click.ClickException(f"The cards can't be asked. {reason}")
    return ", ".join(_described(line, count) for line, count in Counter(answer.stdout.splitlines()).items())


def _described(line: str, count: int) -> str:
    name, _, memory = line.rpartition(", ")
    size = format_gib(Mib(int(memory))) if memory.isdigit() else "memory unknown"
    return f"{f'{count} x ' if count > 1 else ''}{name}, {size}"
