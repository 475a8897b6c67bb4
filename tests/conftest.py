"""The order of the levels of realism, and at the end of a run what was left out and why: one line for each reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path, PurePath

import pytest

# The cheapest first.  The browser's tests last: playwright leaves an event loop running, which other tests can't bear.
LEVELS = ("unit", "native", "hub", "cli", "notebooks", "cluster", "tutorials", "browser")
FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _level(item.path))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make a report again that CPython 3.11 stumbled over: two threads that parse source at once, here and for a log's
    traceback, disturb each other there (python/cpython#106905).
    """
    try:
        return (yield)
    except SystemError as error:
        if "recursion depth mismatch" not in str(error):
            raise
        return pytest.TestReport.from_item_and_call(item, call)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out = Counter((_group(report.nodeid), _reason(report)) for report in terminalreporter.stats.get("skipped", ()))
    if left_out:
        terminalreporter.section("left out")
    for (group, reason), count in sorted(left_out.items()):
        terminalreporter.line(f"{group}: {count} {'test' if count == 1 else 'tests'}. {reason}")


def _level(path: Path) -> int:
    inside = path.is_relative_to(FOLDER) and path.relative_to(FOLDER).parts[0]
    return LEVELS.index(inside) if inside in LEVELS else 0


def _group(nodeid: str) -> str:
    """The folder of a test: its level of realism."""
    return str(PurePath(nodeid.split("::")[0]).parent)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    return text.removeprefix("Skipped: ").strip()
