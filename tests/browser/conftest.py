"""Chromium, and the hubs it looks at."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from form_starts import ScriptedNews

from hami_hub.cli.demo import ports
from tests.chromium import IMAGES, TAKES_PICTURES, Pages, launched, mark

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            mark(item)


@pytest.fixture(scope="session")
def chromium() -> Iterator:
    with launched() as browser:
        yield browser


@pytest.fixture
def new_page(chromium) -> Iterator[Callable]:
    """A page in a fresh profile; arguments as of playwright's `new_context`."""
    with contextlib.closing(Pages(chromium, viewport={"width": 1100, "height": 900})) as pages:
        yield pages


@pytest.fixture(scope="session")
def picture() -> Callable:
    """Keep a picture of a page for the docs, if HAMI_SCREENSHOTS=1."""

    def keep(page, name: str, **options) -> None:
        if TAKES_PICTURES:
            IMAGES.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=IMAGES / f"{name}.png", **options)

    return keep


@dataclass(frozen=True)
class Demo:
    """A running `hami-hub demo` on a simulated T4."""

    url: str
    password: str


def wait_for_hub(url: str, process: subprocess.Popen, log: Path, patience: float = 120) -> None:
    """Return when the hub at `url` shows its login page."""
    end = time.monotonic() + patience
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/hub/login", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"The hub at {url} didn't come up:\n{log.read_text()[-4000:]}")


def end_group(process: subprocess.Popen) -> None:
    """End a process that leads its own group, and all that it started in that group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(15)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


@pytest.fixture(scope="session")
def violations() -> Callable:
    """What axe-core finds wrong in a page by WCAG 2.2, levels A and AA, in words; only in `context` if one is named."""
    from axe_playwright_python.sync_playwright import Axe

    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]

    def found(page, context: str | None = None) -> list[str]:
        results = Axe().run(page, context, {"runOnly": rules, "resultTypes": ["violations"]}).response
        return [
            f"{each['id']}: {each['help']}: {node['html']}" for each in results["violations"] for node in each["nodes"]
        ]

    return found


@pytest.fixture(scope="session")
def form_hub_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `form_hub` runs, and looks for what tests tell it."""
    return tmp_path_factory.mktemp("form-hub")


@pytest.fixture(scope="session")
def form_hub(form_hub_folder: Path) -> Iterator[str]:
    """The URL of a hub that shows `form_scenes`: any account logs in with any password.

    HAMI_HUB_PYTHON names the Python of another JupyterHub than the tests' own.
    """
    folder = form_hub_folder
    public, hub, api = ports.any_free(3)
    url = f"http://127.0.0.1:{public}"
    environment = {
        **os.environ,
        "FORM_HUB_URL": url,
        "FORM_HUB_PORT": str(hub),
        "FORM_HUB_PROXY": f"http://127.0.0.1:{api}",
    }
    log = folder / "hub.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [
                os.environ.get("HAMI_HUB_PYTHON", sys.executable),
                "-m",
                "jupyterhub",
                "-f",
                str(HERE / "form_hub_config.py"),
            ],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for_hub(url, process, log)
        yield url
    finally:
        end_group(process)


@pytest.fixture(scope="session")
def cookies() -> dict:
    """Of the accounts that logged in already."""
    return {}


@pytest.fixture
def form(form_hub: str, new_page: Callable, cookies: dict) -> Callable:
    """Come to the form of an account of `form_scenes`, by /hub/spawn or by another link."""

    def opened(account: str, *, link: str = "/hub/spawn", **options):
        if account not in cookies:
            page = new_page()
            page.goto(f"{form_hub}/hub/login?next=/hub/spawn")
            page.get_by_label("Username").fill(account)
            page.get_by_label("Password").fill("any")
            page.get_by_role("button", name="Sign in").click()
            page.locator("#hami-form").wait_for()
            cookies[account] = page.context.storage_state()
        page = new_page(storage_state=cookies[account], **options)
        page.goto(f"{form_hub}{link}")
        page.locator("#hami-form, #hami-waiting").wait_for()
        return page

    return opened


@pytest.fixture
def waiting(form: Callable, form_hub: str, form_hub_folder: Path) -> Iterator[Callable]:
    """Press Start as wanda, whose start waits: the page, and the start."""
    begun = []

    def begin(server: str = "", **options):
        start = ScriptedNews(form_hub_folder, "wanda")
        page = form("wanda", link=f"/hub/spawn/wanda/{server}" if server else "/hub/spawn", **options)
        begun.append((page, start))
        start.wait()
        page.get_by_role("button", name="Start").click()
        page.locator("#hami-waiting").wait_for()
        if options.get("java_script_enabled", True):
            page.wait_for_function("window._jupyterhub_page_loaded")
        return page, start

    yield begin
    for page, start in begun:
        start.fail("The test is over.")
        while page.request.get(f"{form_hub}/hub/api/users/wanda?include_stopped_servers=0").json()["servers"]:
            page.wait_for_timeout(50)
        start.forget()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The real demo, ended as a person ends it: by Ctrl-C."""
    folder = tmp_path_factory.mktemp("demo")
    (port,) = ports.any_free(1)
    url, log = f"http://127.0.0.1:{port}", folder / "demo.log"
    command = [
        sys.executable,
        "-m",
        "hami_hub.cli",
        "demo",
        "--simulated",
        f"--port={port}",
        f"--dir={folder / 'demo'}",
    ]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, start_new_session=True)
    try:
        wait_for_hub(url, process, log)
        yield Demo(url, (folder / "demo" / "password").read_text().strip())
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(40)
        end_group(process)
