"""Files that others read while they are replaced: written aside, then renamed into place."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

_ASIDE = ".new-"


def write_whole(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Put a file of that content at `path`: a reader finds the old one or all of the new one.

    Raises:
        OSError: it can't be written; then the old one is still there.
    """
    with _aside(path) as draft:
        draft.write_bytes(content)
        draft.chmod(mode)
        draft.rename(path)


def link_whole(source: Path, path: Path) -> None:
    """Make `path` another name of `source`, whatever it was before.

    Raises:
        OSError: it can't be made.
    """
    with _aside(path) as draft:
        os.link(source, draft)
        # Two names of one file: rename would leave both.
        if path.exists() and path.samefile(draft):
            return
        draft.rename(path)


def is_aside(name: str) -> bool:
    """Whether a file of that name was left by a writer that was killed."""
    return name.startswith(_ASIDE)


@contextlib.contextmanager
def _aside(path: Path) -> Iterator[Path]:
    draft = path.parent / f"{_ASIDE}{secrets.token_hex(6)}"
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)
