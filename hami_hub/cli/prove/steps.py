"""The proofs, in the order in which they are run.  Each runs commands on the bench, compares, and judges."""

from __future__ import annotations

import asyncio
import platform
import re
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from ...core.names import ENV_VISIBLE_DEVICES
from ...notebook.check import NOTEBOOKS, check_notebook
from ..demo.folder import notebooks_folder
from .bench import HAMI_HUB, Bench, Ran
from .hub import DemoHubError, demo_hub
from .report import Proof

_SLICE = 4000
_NOTEBOOK_SECONDS = 240
_TORCH_SECONDS = 180
_QUERY = ("--query-gpu=uuid,memory.total", "--format=csv,noheader")
_PACKAGES = ("hami-hub", "torch", "cuda-bindings", "nvidia-ml-py", "jupyterhub", "jupyterlab", "ipykernel", "nbval")

# Nothing of this project: what a person with PyTorch would type.
TORCH_CODE = """
import torch

print(torch.cuda.get_device_properties(0).total_memory // 2**20, "MiB")
kept = torch.zeros(2 * 2**30 // 4, dtype=torch.float32, device="cuda")
print(f"2GB allocated ({torch.cuda.memory_allocated() // 2**20} MiB)")
del kept
torch.cuda.empty_cache()
try:
    torch.zeros(6 * 2**30 // 4, dtype=torch.float32, device="cuda")
except torch.OutOfMemoryError as error:
    print("OutOfMemoryError:", error)
"""
DRIVER_CODE = """
from hami_hub.notebook import gpu
from hami_hub.notebook.errors import OutOfMemoryError

print(gpu.total_memory())
gpu.allocate("2 GiB")
gpu.free()
try:
    gpu.allocate("6 GiB")
except OutOfMemoryError as error:
    print("OutOfMemoryError:", error)
"""
_REFUSED = (
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of 3.91 GiB of which "
)


def facts(bench: Bench) -> list[tuple[str, str]]:
    """What is on this machine."""
    driver = bench.run(*HAMI_HUB, "smi", "--query-gpu=driver_version", "--format=csv,noheader").stdout
    packages = [f"{name} {version}" for name in _PACKAGES if (version := _version(name))]
    return [
        ("card", f"{bench.card.model}, {bench.card.vram} MiB; the machine has {bench.card.count}"),
        ("driver", (driver.splitlines() or ["unknown"])[0]),
        ("system", f"{platform.system()} {platform.release()}, {platform.machine()}, glibc {platform.libc_ver()[1]}"),
        ("Python", platform.python_version()),
        ("packages", ", ".join(packages)),
    ]


def outside(bench: Bench) -> Proof:
    """The card as it is, for comparison."""
    table, query = bench.run(*bench.smi), bench.run(*bench.smi, *_QUERY)
    return Proof(
        title="Outside a slice the card is whole",
        claim=f"`{_name(bench)}` shows {bench.card.vram} MiB.",
        problems=_expect(query, f"{bench.card.uuid}, {bench.card.vram} MiB") + _succeeded(table),
        ran=(table, query),
    )


def inside(bench: Bench) -> Proof:
    """Experiment 6 by the tools."""
    environment = bench.slice("smi", vram=_SLICE)
    runs = [bench.run(*bench.smi, environment=environment), bench.run(*bench.smi, *_QUERY, environment=environment)]
    problems = _expect(runs[1], f"{bench.card.uuid}, {_SLICE} MiB") + _whole_table(runs[0], _SLICE)
    if bench.smi[0] == "nvidia-smi":
        runs.append(bench.run(*HAMI_HUB, "smi", *_QUERY, environment=environment))
        problems += _expect(runs[2], f"{bench.card.uuid}, {_SLICE} MiB")
    return Proof(
        title=f"Inside a slice of {_SLICE} MiB the tools show {_SLICE} MiB",
        claim="The table says so, and nothing is printed around it.",
        problems=problems,
        ran=runs,
    )


def one_card(bench: Bench) -> Proof:
    """Experiment 5."""
    query = (*bench.smi, "--query-gpu=uuid", "--format=csv,noheader")
    runs = [bench.run(*query, environment=bench.slice(name, vram=_SLICE)) for name in ("core-a", "core-b")]
    return Proof(
        title="Two slices of one card have the card's UUID",
        claim=f"Both print {bench.card.uuid}.",
        problems=[problem for ran in runs for problem in _expect(ran, bench.card.uuid)],
        ran=runs,
    )


def out_of_memory(bench: Bench) -> Proof:
    """Experiments 6 and 7, in code that a person would type."""
    code = TORCH_CODE if bench.torch else DRIVER_CODE
    ran = bench.run(sys.executable, "-c", code, environment=bench.slice("oom", vram=_SLICE), seconds=_TORCH_SECONDS)
    lines = [line for line in ran.stdout.splitlines() if not line.startswith("Freed")]
    problems = _succeeded(ran)
    wanted = [f"{_SLICE} MiB", "2GB allocated (2048 MiB)"]
    if lines[:2] != wanted:
        problems.append(f"The first lines should be {wanted}.")
    if not "\n".join(lines[2:]).startswith(_REFUSED):
        problems.append(f'6 GiB should be refused with "{_REFUSED}… is free".')
    return Proof(
        title=f"With {'PyTorch' if bench.torch else 'the driver API'}: 2 GiB granted, 6 GiB refused",
        claim="The total is 4000 MiB, 2 GiB are allocated and freed, 6 GiB are refused with PyTorch's words.",
        problems=problems,
        ran=(ran,),
    )


def small_slice(bench: Bench) -> Proof:
    """Experiment 8."""
    ran = bench.run(*bench.smi, environment=bench.slice("small", vram=3000, cores=30))
    return Proof(
        title="A slice of 3000 MiB and 30 %: the usual table",
        claim="It says 3000MiB, and nothing of ours is printed around it.",
        problems=_whole_table(ran, 3000),
        ran=(ran,),
    )


def notebook_in_a_slice(bench: Bench) -> Proof:
    """Notebook 01."""
    return _notebook(bench, NOTEBOOKS[0], bench.slice("notebook", vram=_SLICE))


def notebooks_on_a_hub(bench: Bench) -> list[Proof]:
    """Notebooks 02 and 03, in a demo of their own."""
    return asyncio.run(_on_a_hub(bench))


STEPS: Sequence[Callable[[Bench], Proof | list[Proof]]] = (
    outside,
    inside,
    one_card,
    out_of_memory,
    small_slice,
    notebook_in_a_slice,
    notebooks_on_a_hub,
)


async def _on_a_hub(bench: Bench) -> list[Proof]:
    # The admin's own server has no card, and the demo decides by itself which card there is.
    plain = {name: value for name, value in bench.environment.items() if name != ENV_VISIBLE_DEVICES}
    try:
        async with demo_hub(bench.scratch / "demo", simulated=bench.simulated, environment=plain) as variables:
            environment = {**bench.environment, **variables}
            shared = _notebook(bench, NOTEBOOKS[1], environment)
            if bench.card.count > 1:
                why = f"whoever asks second gets another card here, of {bench.card.count}. Run it where there is one."
                return [shared, _notebook_proof(NOTEBOOKS[2], left_out=why)]
            return [shared, _notebook(bench, NOTEBOOKS[2], environment)]
    except DemoHubError as error:
        return [_notebook_proof(name, problems=[str(error)]) for name in NOTEBOOKS[1:]]


def _notebook(bench: Bench, name: str, environment: dict[str, str]) -> Proof:
    checked = check_notebook(
        Path(notebooks_folder()) / name, environment=environment, scratch=bench.scratch, seconds=_NOTEBOOK_SECONDS
    )
    if checked.passed:
        return _notebook_proof(name, record=checked.record)
    log = Ran(f"pytest --nbval {name}", 1, checked.log, "")
    return _notebook_proof(
        name, problems=["A cell failed or printed something else."], ran=(log,), record=checked.record
    )


def _notebook_proof(
    name: str, *, left_out: str = "", problems: Sequence[str] = (), ran: Sequence[Ran] = (), record: str = ""
) -> Proof:
    return Proof(
        title=f"Notebook {name.removesuffix('.ipynb')}",
        claim="Every cell runs and prints what is stored in it, but for numbers that differ from card to card.",
        problems=problems,
        left_out=left_out,
        ran=ran,
        record=record,
    )


def _succeeded(ran: Ran) -> list[str]:
    return [] if ran.code == 0 else [f"`{ran.command.splitlines()[0]}` failed."]


def _expect(ran: Ran, line: str) -> list[str]:
    problems = _succeeded(ran)
    first = (ran.stdout.splitlines() or ["nothing"])[0]
    return problems if first == line else [*problems, f'"{line}" should be printed, and "{first}" is.']


def _whole_table(ran: Ran, vram: int) -> list[str]:
    """The table alone: the date first, a frame's line last, the slice's amount in it."""
    problems = _succeeded(ran)
    lines = ran.stdout.strip().splitlines() or [""]
    if not re.search(rf"/ +{vram}MiB \|", ran.stdout):
        problems.append(f"The table should have the total {vram}MiB.")
    if ran.stderr.strip() or not lines[-1].startswith("+--") or not lines[1:2] or not lines[1].startswith("+--"):
        problems.append("Something is printed around the table.")
    return problems


def _name(bench: Bench) -> str:
    return "nvidia-smi" if bench.smi[0] == "nvidia-smi" else "hami-hub smi"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
