"""A real cluster for the tests of this folder, started when the first test asks for it; `rig` is what it's made of."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import release_images as release
from tests.cluster.hami import hami, release_images, space
from tests.cluster.rig import Cluster, programs, why_not
from tests.cluster.rig.cluster import handle

__all__ = ["hami", "release_images", "space"]

HERE = Path(__file__).parent
TIMEOUT = 900  # seconds; the first test of a cluster also waits for that, and for the release
CLUSTERS = {"cluster", "two_nodes", "hami"}  # the fixtures
failed = pytest.StashKey[bool]()
numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [item for item in items if HERE in item.path.parents]
    reason = why_not() if ours else None
    for item in ours:
        item.add_marker("cluster")
        item.add_marker(pytest.mark.timeout(TIMEOUT))
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
        elif _installs(item) and (no_images := release.why_not()):
            item.add_marker(pytest.mark.skip(reason=no_images))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build now what isn't built yet: it takes longer than any test may."""
    needed = any(HERE in item.path.parents and not item.get_closest_marker("skip") for item in session.items)
    if needed and not session.config.option.collectonly:
        reporter = session.config.pluginmanager.getplugin("terminalreporter")

        def say(line: str) -> None:
            reporter.write_line(line, flush=True)

        programs.ensure(say=say)
        if any(_installs(item) and not item.get_closest_marker("skip") for item in session.items):
            release.ensure(say)


def _installs(item: pytest.Item) -> bool:
    return "release_images" in getattr(item, "fixturenames", ())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: Any = yield
    used = CLUSTERS & set(getattr(item, "fixturenames", ()))
    if report.failed and used and HERE in item.path.parents:
        item.session.stash[failed] = True
        for name in used:
            cluster = getattr(item, "funcargs", {}).get(name)
            if cluster is not None and "--- kubectl" not in str(report.longrepr):
                report.sections.append((f"the cluster {cluster.name}", cluster.describe()))
    return report


def _running(request: pytest.FixtureRequest, suffix: str, nodes: int) -> Iterator[Cluster]:
    _clean_after_the_killed()
    name = f"pytest-{os.getpid()}{suffix}"
    with Cluster(name, nodes=nodes, audit=True) as cluster:
        yield cluster
        if request.session.stash.get(failed, False):
            reporter = request.config.pluginmanager.getplugin("terminalreporter")
            reporter.write_line(f"\nA test failed: the cluster's logs are kept in {cluster.keep_logs()}")


def _clean_after_the_killed() -> None:
    """The clusters of earlier test runs died with those, but their files are still there."""
    for folder in handle("pytest-0").parent.glob(handle("pytest-*").name):
        name = folder.name.removeprefix(handle("").name)
        pid = name.split("-")[1]
        if pid.isdigit() and not Path("/proc", pid).exists() and "-logs-" not in name:
            Cluster(name).clean()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The cluster, of one node unless HAMI_TEST_NODES says more; tests leave nothing of theirs in it."""
    yield from _running(request, "", int(os.environ.get("HAMI_TEST_NODES", "1")))


@pytest.fixture(scope="session")
def two_nodes(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Another cluster, of two nodes; `cluster` itself where that has more than one."""
    if int(os.environ.get("HAMI_TEST_NODES", "1")) > 1:
        yield request.getfixturevalue("cluster")
    else:
        yield from _running(request, "-two", 2)


@pytest.fixture
def kubectl(cluster: Cluster) -> Callable[..., str]:
    """`kubectl("get", "pods")` gives what that prints, and raises when it fails."""
    return cluster.kubectl


@pytest.fixture
def wait_for(cluster: Cluster) -> Callable[..., Any]:
    """`wait_for(look, "what in words", seconds=60)`: see Cluster.wait_for."""
    return cluster.wait_for


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """The name of a namespace in `cluster` for one test, emptied after it."""
    name = f"test-{next(numbers)}"
    with cluster.namespace(name):
        yield name
