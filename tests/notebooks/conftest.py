"""The bench of `hami-hub prove` on a simulated card, for notebooks that are run as a person would run them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hami_hub.cli.prove.bench import Bench, scratch_folder


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    with scratch_folder() as scratch:
        yield Bench(scratch, simulated=True)
