"""`python -m cluster.scheduler`."""

from __future__ import annotations

from .cli import main

main(prog_name="python -m cluster.scheduler")
