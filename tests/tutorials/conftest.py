"""Chromium, and where its pictures go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.chromium import IMAGES, TAKES_PICTURES, Pages, launched, mark


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "chromium" in getattr(item, "fixturenames", ()) and Path(__file__).parent in item.path.parents:
            mark(item)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Ended with the module: the browser tests have one of their own, and two at once can't be."""
    with launched() as browser:
        yield browser


@pytest.fixture
def new_page(chromium: Any) -> Iterator[Callable[[], Any]]:
    """The page of somebody who hasn't been anywhere yet."""
    with closing(Pages(chromium, viewport={"width": 1000, "height": 900})) as pages:
        yield pages


@pytest.fixture(scope="session")
def keep_picture() -> Callable[[Any, str], None]:
    """Keep a picture of a page for the docs, if HAMI_SCREENSHOTS=1; else the docs must have it."""

    def keep(page: Any, file: str) -> None:
        if TAKES_PICTURES:
            page.mouse.move(0, 0)
            page.wait_for_timeout(1000)  # what moves has come to rest
            height = min(1400, int(page.evaluate("document.body.getBoundingClientRect().bottom + scrollY")) + 24)
            clip = {"x": 0, "y": 0, "width": 1000, "height": height}
            page.screenshot(path=IMAGES / file, clip=clip, full_page=True)
        assert (IMAGES / file).exists(), f"There is no docs/images/{file}: run the test with HAMI_SCREENSHOTS=1."

    return keep
