"""GPU slices for JupyterHub: pick "4 GiB · 25 % of a T4" and every process of the notebook is held to it.

The rooms, from the ground up (imports point downwards only, held by import-linter):

- `core`: what a slice, a card, a placement is, and every decision.  Pure: no I/O, no clock.
- `slicepage`: the binary page shared with the limiter, `native/libvgpu`.
- `native`: where the compiled libraries lie.
- `cards`: which cards this machine has, asked of NVML.
- `notebook`: what a person in a notebook calls.
- `spawner`: JupyterHub spawners that start servers on slices.
- `cli`: the command `hami-hub`.
"""

from __future__ import annotations

__version__ = "0.1.0"
