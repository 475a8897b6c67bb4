"""Measures the admin's page with 1,000 servers on 200 cards and 10,000 users: what is sent, how long it takes to be
drawn, and whether the browser is ever kept busy.  `python -m bench.page.run --help`.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click
import httpx
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
BROWSER = ROOT / "tests" / "browser"
_TOKEN = {"Authorization": "token ada"}

# Long tasks, and how long the browser took between two frames, from the beginning of the page.
_WATCH = """
window.longTasks = [];
new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((each) => each.duration)))
  .observe({ type: "longtask", buffered: true });
window.frames_ = [];
let before = performance.now();
const frame = (now) => { frames_.push(now - before); before = now; requestAnimationFrame(frame); };
requestAnimationFrame(frame);
new MutationObserver((_, self) => {
  if (document.querySelectorAll(".slice").length < 1000) return;
  window.drawn = performance.now();
  self.disconnect();
}).observe(document, { childList: true, subtree: true });
"""


@click.command()
@click.option("--seconds", default=30.0, show_default=True, help="How long to watch the page live.")
@click.option("--rounds", default=5, show_default=True, help="How often to load it.")
@click.option(
    "--output", type=click.Path(path_type=Path), help="Folder of the report; a new one in docs/proofs otherwise."
)
@click.option("--chromium", default="/usr/bin/chromium", show_default=True)
def main(seconds: float, rounds: int, output: Path | None, chromium: str) -> None:
    """Measure, and write a report."""
    day = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    folder = output or ROOT / "docs" / "proofs" / f"{day}-page"
    with serving() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        figures = {**sent(url), **asked(url)}
        loads = []
        for _ in range(rounds):
            page = opened(browser, url)
            loads.append(page)
            page.context.close()
        figures["loads"] = [each.figures for each in loads]
        page = opened(browser, url)
        figures["live"] = live(page, seconds)
        figures["acts"] = acts(page)
        figures["heap_mib"] = round(page.evaluate("performance.memory.usedJSHeapSize") / 2**20, 1)
        version = browser.version
        browser.close()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "raw.json").write_text(json.dumps(figures, indent=1) + "\n")
    (folder / "report.md").write_text(report(figures, version, seconds))
    click.echo(f"{folder / 'report.md'}")


@contextmanager
def serving() -> Iterator[str]:
    """The service with the scene `campus`, in which something is used at every look."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(BROWSER / "page_service.py"), "campus", str(port), "7"], start_new_session=True
    )
    url = f"http://127.0.0.1:{port}/services/hami/"
    try:
        while True:
            try:
                fetch(f"{url}api/now")
                break
            except httpx.HTTPError:
                if process.poll() is not None:
                    raise click.ClickException("The service ended.") from None
                time.sleep(0.2)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def fetch(url: str) -> httpx.Response:
    """An answer; its Content-Length is that of what is sent, as gzip."""
    answer = httpx.get(url, headers=_TOKEN, timeout=60)
    answer.raise_for_status()
    return answer


def sent(url: str) -> dict[str, Any]:
    """How much is sent: everything, and what has changed two seconds later."""
    whole = fetch(f"{url}api/now")
    time.sleep(2.5)
    change = fetch(f"{url}api/now?since={whole.json()['revision']}")
    return {
        "whole_bytes": len(whole.content),
        "whole_sent": int(whole.headers["Content-Length"]),
        "change_bytes": len(change.content),
        "change_sent": int(change.headers["Content-Length"]),
        "changed_rows": {name: len(rows) for name, rows in change.json()["sections"].items()},
    }


def asked(url: str) -> dict[str, Any]:
    """How long the service takes, in milliseconds."""

    def took(path: str, times: int = 15) -> dict[str, float]:
        spent = []
        for _ in range(times):
            before = time.perf_counter()
            fetch(url + path)
            spent.append(1000 * (time.perf_counter() - before))
        return {
            "first": round(spent[0], 1),
            "median": round(statistics.median(spent), 1),
            "worst": round(max(spent), 1),
        }

    paths = {"now": "api/now", "usage by user": "api/usage?by=user", "history": "api/starts", "mine": "mine"}
    return {"service_ms": {name: took(path) for name, path in paths.items()}}


class Opened:
    """A page that is drawn, with how long that took."""

    def __init__(self, page: Page) -> None:
        self.page, self.context = page, page.context
        tasks = page.evaluate("longTasks")
        self.figures = {
            "drawn_ms": round(page.evaluate("drawn")),
            "long_tasks": len(tasks),
            "longest_task_ms": round(max(tasks, default=0)),
        }

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)


def opened(browser: Any, url: str) -> Any:
    """The page with everything drawn."""
    # The page's policy forbids the scripts by which its end is waited for.
    context = browser.new_context(viewport={"width": 1400, "height": 900}, extra_http_headers=_TOKEN, bypass_csp=True)
    page = context.new_page()
    page.add_init_script(_WATCH)
    page.goto(url)
    page.wait_for_function("window.drawn", timeout=60_000)
    page.wait_for_timeout(500)
    return Opened(page)


def live(page: Any, seconds: float) -> dict[str, Any]:
    """What the browser has to do while a thousand slices change every two seconds."""
    page.evaluate("longTasks.length = 0; frames_.length = 0")
    page.wait_for_timeout(1000 * seconds)
    tasks, frames = page.evaluate("[longTasks, frames_]")
    return {
        "seconds": seconds,
        "long_tasks": len(tasks),
        "longest_task_ms": round(max(tasks, default=0)),
        "frames": len(frames),
        "frame_ms_p50": round(statistics.median(frames), 1),
        "frame_ms_p99": round(statistics.quantiles(frames, n=100)[98], 1),
    }


def acts(page: Any) -> dict[str, Any]:
    """What a person does: how long until it is to be seen, and the longest time that the browser was busy meanwhile."""

    def act(do: Callable[[], None], seen: str) -> dict[str, float]:
        page.evaluate("longTasks.length = 0")
        before = time.perf_counter()
        do()
        page.wait_for_function(seen, timeout=30_000)
        spent = 1000 * (time.perf_counter() - before)
        page.wait_for_timeout(300)
        return {"ms": round(spent), "longest_task_ms": round(max(page.evaluate("longTasks"), default=0))}

    rows = "document.querySelectorAll('{} tbody tr').length"
    return {
        "search among the bars": act(
            lambda: page.fill("#cards-search", "user00777"),
            "[...document.querySelectorAll('.card')].filter((each) => !each.hidden).length === 1",
        ),
        "end the search": act(
            lambda: page.fill("#cards-search", ""),
            "[...document.querySelectorAll('.card')].filter((each) => !each.hidden).length === 200",
        ),
        "as a table": act(lambda: page.check("#cards-as-table"), f"{rows.format('#cards-table')} === 50"),
        "sort the table": act(
            lambda: page.click("#cards-table th button >> nth=4"),
            "document.querySelector('#cards-table [aria-sort=descending]')",
        ),
        "queue": act(lambda: page.click("#tab-queue"), f"{rows.format('#queue-table')} === 50"),
        "use of 10,000 users": act(lambda: page.click("#tab-usage"), f"{rows.format('#usage-table')} === 50"),
        "the next page of them": act(
            lambda: page.click("#usage-table .pager button >> nth=1"),
            "document.querySelector('#usage-table .pager').textContent.startsWith('51')",
        ),
        "history": act(lambda: page.click("#tab-starts"), f"{rows.format('#starts-table')} === 50"),
    }


def report(figures: dict[str, Any], version: str, seconds: float) -> str:
    """The report, in Markdown."""
    loads, live_ = figures["loads"], figures["live"]
    drawn = [each["drawn_ms"] for each in loads]
    longest = max(each["longest_task_ms"] for each in loads)
    rows = sum(figures["changed_rows"].values())
    kib = {name: f"{figures[name] / 1024:.0f} KiB" for name in figures if name.endswith(("_bytes", "_sent"))}
    lines = [
        "# The page with 1,000 servers on 200 cards, measured",
        "",
        "The scene `campus` of `tests/browser/page_scenes.py`: 200 cards on 25 nodes, 1,000 servers, 120 that wait,",
        "40 groups with quotas, 10,000 users with 20,000 starts behind them. At every look another amount is in use of",
        "every slice.",
        "Service and browser share the machine, which carried other work too (its load is below).",
        "",
        "    python -m bench.page.run",
        "",
        "| what | value |",
        "| --- | --- |",
        f"| system | {platform.system()} {platform.release()}, {platform.machine()}, {os.cpu_count()} cores |",
        f"| Python | {platform.python_version()} |",
        f"| load | {', '.join(f'{each:.1f}' for each in os.getloadavg())} |",
        f"| Chromium | {version} |",
        "",
        "| what is sent | JSON | as gzip |",
        "| --- | --- | --- |",
        f"| everything, once | {kib['whole_bytes']} | {kib['whole_sent']} |",
        f"| two seconds later, {rows} rows | {kib['change_bytes']} | {kib['change_sent']} |",
        "",
        "| the service takes | first, ms | median, ms | worst, ms |",
        "| --- | --- | --- | --- |",
        *(f"| {name} | {t['first']} | {t['median']} | {t['worst']} |" for name, t in figures["service_ms"].items()),
        "",
        "| in the browser | |",
        "| --- | --- |",
        f"| from the click to 1,000 slices drawn | median {statistics.median(drawn):.0f} ms, worst {max(drawn)} ms |",
        f"| longest task of {len(drawn)} loads | {longest} ms |",
        f"| tasks over 50 ms, {seconds:g} s live | {live_['long_tasks']}, the longest {live_['longest_task_ms']} ms |",
        f"| time between two frames, live | p50 {live_['frame_ms_p50']} ms, p99 {live_['frame_ms_p99']} ms |",
        f"| JavaScript's memory | {figures['heap_mib']} MiB |",
        "",
        "| a person's act | until it is to be seen, ms | longest task, ms |",
        "| --- | --- | --- |",
        *(f"| {name} | {act['ms']} | {act['longest_task_ms']} |" for name, act in figures["acts"].items()),
        "",
        "Searching waits for a pause in typing first: 150 ms among cards, 300 ms where the service is asked.",
        "Raw figures: [raw.json](raw.json).",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
