"""What has changed since somebody last looked: a few of the last pages are kept, and a newer one is told as the rows
that differ.

Pure but for one random name: revisions of a service that was started anew are other ones.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import Any

from .model import Sections

_KEPT = 30


class Revisions:
    """The last pages, the newest last."""

    def __init__(self) -> None:
        self._run = secrets.token_hex(4)
        self._number = 0
        self._pages: OrderedDict[str, Sections] = OrderedDict()

    @property
    def newest(self) -> str:
        """Name of the newest page; "" before the first."""
        return next(reversed(self._pages), "")

    def add(self, page: Sections) -> None:
        """Keep `page`, if it isn't the one there was."""
        if self._pages and self._pages[self.newest] == page:
            return
        self._number += 1
        self._pages[f"{self._run}-{self._number}"] = page
        while len(self._pages) > _KEPT:
            self._pages.popitem(last=False)

    def since(self, revision: str) -> dict[str, Any]:
        """What is new for somebody who has `revision`: only changed rows, or everything if it isn't known any more.

        `base` is the revision to which `sections` and `gone` are to be applied; None: `sections` is all there is.
        """
        newest = self._pages[self.newest]
        before = self._pages.get(revision)
        if before is None:
            return {"revision": self.newest, "base": None, "sections": newest, "gone": {}}
        changed: Sections = {}
        gone: dict[str, list[str]] = {}
        for section, rows in newest.items():
            old = before.get(section, {})
            changed[section] = {id_: row for id_, row in rows.items() if id_ not in old or old[id_] != row}
            gone[section] = [id_ for id_ in old if id_ not in rows]
        return {"revision": self.newest, "base": revision, "sections": changed, "gone": gone}
