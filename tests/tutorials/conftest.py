"""Chromium, and where its pictures go."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

IMAGES = Path(__file__).parents[2] / "docs" / "images"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()) and Path(__file__).parent in item.path.parents:
            item.add_marker("browser")
            if CHROMIUM is None:
                item.add_marker(pytest.mark.skip(reason="no Chromium here; on Debian: apt-get install chromium"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Ended with the module: the browser tests have one of their own, and two at once can't be."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def new_page(chromium: Any) -> Iterator[Callable[[], Any]]:
    """The page of somebody who hasn't been anywhere yet."""
    contexts = []

    def make() -> Any:
        contexts.append(chromium.new_context(viewport={"width": 1000, "height": 900}))
        page = contexts[-1].new_page()
        page.set_default_timeout(30_000)
        return page

    yield make
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def keep_picture() -> Callable[[Any, str], None]:
    """Keep a picture of a page for the docs, if HAMI_SCREENSHOTS=1; else the docs must have it."""

    def keep(page: Any, file: str) -> None:
        if os.environ.get("HAMI_SCREENSHOTS") == "1":
            page.mouse.move(0, 0)
            page.wait_for_timeout(1000)  # what moves has come to rest
            height = min(1400, int(page.evaluate("document.body.getBoundingClientRect().bottom + scrollY")) + 24)
            clip = {"x": 0, "y": 0, "width": 1000, "height": height}
            page.screenshot(path=IMAGES / file, clip=clip, full_page=True)
        assert (IMAGES / file).exists(), f"There is no docs/images/{file}: run the test with HAMI_SCREENSHOTS=1."

    return keep
