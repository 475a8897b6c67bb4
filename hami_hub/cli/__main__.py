"""`python -m hami_hub.cli`: the command for those who know only their Python."""

from __future__ import annotations

from . import main

main(prog_name="hami-hub")
