"""The browser of the tests that need one, and where the pictures for the docs go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

IMAGES = Path(__file__).parents[1] / "docs" / "images"
# ms, for what a page doesn't show yet: on a busy machine it may take its time.
PATIENCE = 60_000
# Pictures for the docs are taken only where somebody asks for them.
TAKES_PICTURES = os.environ.get("HAMI_SCREENSHOTS") == "1"
_CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def mark(item: pytest.Item) -> None:
    """Say of a test that it needs Chromium."""
    item.add_marker("browser")
    if _CHROMIUM is None:
        item.add_marker(pytest.mark.skip(reason="browser tests: no Chromium here; on Debian: apt-get install chromium"))


@contextmanager
def launched() -> Iterator[Any]:
    """Chromium, by playwright, of which there can't be two at once."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=_FLAGS)
        yield browser
        browser.close()


class Pages:
    """Pages of `browser`, each in a profile of its own, until `close`.

    Args:
        browser: Chromium.
        usual: arguments as of playwright's `new_context`.
    """

    def __init__(self, browser: Any, **usual: Any) -> None:
        self._browser, self._usual = browser, usual
        self._contexts: list[Any] = []

    def __call__(self, **options: Any) -> Any:
        """One more page; arguments as of `new_context`."""
        self._contexts.append(self._browser.new_context(**{**self._usual, **options}))
        page = self._contexts[-1].new_page()
        page.set_default_timeout(PATIENCE)
        return page

    def close(self) -> None:
        """Close all of them."""
        for context in self._contexts:
            context.close()
