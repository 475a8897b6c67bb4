"""What there is on the machine that a reader of the figures must know, and nothing that names it."""

from __future__ import annotations

import os
import platform
import re
from importlib import metadata
from pathlib import Path

from .outside import CardFacts

_PACKAGES = ("torch", "nvidia-ml-py")


def machine(card: CardFacts, *, include: Path) -> list[tuple[str, str]]:
    """Names and values, for a table."""
    packages = [f"{name} {version}" for name in _PACKAGES if (version := _version(name))]
    return [
        ("card", f"{card.model}, {card.vram} MiB"),
        ("driver", card.driver),
        ("CUDA headers", _headers(include)),
        ("system", f"{platform.system()} {platform.release()}, {platform.machine()}, glibc {platform.libc_ver()[1]}"),
        ("processor", f"{_processor()}, {len(os.sched_getaffinity(0))} cores"),
        ("Python", f"{platform.python_version()}, {', '.join(packages)}"),
    ]


def _headers(include: Path) -> str:
    found = re.search(r"#define CUDA_VERSION (\d+)", (include / "cuda.h").read_text())
    version = int(found[1]) if found else 0
    return f"{version // 1000}.{version % 1000 // 10}"


def _processor() -> str:
    try:
        found = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.machine()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
