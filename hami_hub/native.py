"""Where the compiled libraries lie, and the environment that a process needs to meet them.

The limiter is preloaded into the processes of a slice; the simulated card takes the driver's place where there is
none.  What they do is in native/.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import hami_hub

LIMITER = "libvgpu.so"
SIM_FOLDER = "sim"
ENV_SIM_DIR = "HAMI_SIM_DIR"
ENV_SIM_PROFILE = "HAMI_SIM_PROFILE"
ENV_SIM_CARDS = "HAMI_SIM_CARDS"
ENV_SIM_MIG = "HAMI_SIM_MIG"
ENV_SEARCH = "LD_LIBRARY_PATH"


class NativeMissingError(RuntimeError):
    """The compiled libraries are not where an installed package has them."""


def limiter_path() -> Path:
    """The limiter, libvgpu.so.

    Raises:
        NativeMissingError: the package was copied rather than installed.
    """
    # An editable install has two folders: the source tree and the one with what was compiled.
    for folder in hami_hub.__path__:
        path = Path(folder) / "_native" / LIMITER
        if path.is_file():
            return path
    raise NativeMissingError("libvgpu.so is not in the installed package. Install it with `pip install .`.")


def sim_folder() -> Path:
    """The folder of the simulated libcuda.so.1 and libnvidia-ml.so.1.

    Raises:
        NativeMissingError: see `limiter_path`.
    """
    return limiter_path().parent / SIM_FOLDER


def sim_environment(state: Path, *, profile: str = "t4", cards: int = 1) -> dict[str, str]:
    """What a process needs in its environment to meet simulated cards.

    Args:
        state: folder on tmpfs; processes that name the same one share the cards.
        profile: "t4", "a10", "a100-40gb" or "h200".
        cards: how many.
    """
    return {
        ENV_SEARCH: put_first(str(sim_folder()), os.environ.get(ENV_SEARCH, "").split(":")),
        ENV_SIM_DIR: str(state),
        ENV_SIM_PROFILE: profile,
        ENV_SIM_CARDS: str(cards),
    }


def put_first(first: str, rest: Iterable[str]) -> str:
    """A list as the dynamic linker reads it: `first`, then the others once more."""
    return ":".join([first, *(path for path in rest if path and path != first)])


def is_simulated() -> bool:
    """Whether this process was told to meet simulated cards."""
    return ENV_SIM_DIR in os.environ
