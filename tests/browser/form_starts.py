"""Starts of the form hub's accounts, whose news the tests make."""

from __future__ import annotations

import json
from pathlib import Path

WHY = (
    "You are 2nd in line. 8 GiB · 50 % is not free now: the Tesla T4 has 7 GiB free, 8 GiB are asked for. "
    "Pick 7 GiB or less, or wait until a server stops. 8 GiB come free in about 20 minutes, by a time limit."
)


class ScriptedNews:
    """A start of an account's server whose news the test makes."""

    def __init__(self, folder: Path, account: str) -> None:
        self._file = folder / f"{account}.news"
        self._file.write_text("")

    def tell(self, progress: int, message: str, **facts: object) -> None:
        self._add({"progress": progress, "message": message, **facts})

    def wait(self, position: int = 2, message: str = WHY, frees_at: float | None = None) -> None:
        self.tell(10, message, state="waiting", position=position, frees_at=frees_at)

    def fail(self, why: str) -> None:
        self._add({"fail": why})

    def _add(self, line: dict) -> None:
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def forget(self) -> None:
        self._file.unlink(missing_ok=True)
