"""Machines and settings that lack something: the hub starts, says what is wrong, and does what it can without."""

from __future__ import annotations

import html
import sys
import tempfile
from typing import Any

import pytest
from hub_process import Failed, Hub
from person import Person
from shapes import SHAPES
from test_starting import DRIVER, OUT_OF_MEMORY

SIMPLE = SHAPES["simple"]


def test_without_a_driver_there_are_servers_without_a_gpu() -> None:
    with Hub(spawner=SIMPLE, simulated=False) as hub:
        page = Person(hub, "alice").open("/hub/spawn")
        if "libnvidia-ml.so.1 was not found" not in page:
            pytest.skip("This machine has a driver.")
        hub.start("alice", {"profile": "cpu"})
        with pytest.raises(Failed, match=r"This machine has no GPU\. Pick a profile without one"):
            hub.start("bob", {"profile": "small"})
        assert list(hub.held()) == ["alice"]
        assert "Traceback" not in hub.log.read_text()


WRONG = {
    "no tmpfs": ({"slice_root": "/proc/hami"}, "The slices' folder /proc/hami is not on a tmpfs"),
    "a file in its place": ({"slice_root": "FILE"}, "can't be written: Not a directory"),
    "bad profile": ({"profiles": [{"name": "x", "vram": "lots"}]}, "The hub's GPU profiles are set up wrongly."),
}


@pytest.mark.parametrize(("config", "text"), WRONG.values(), ids=WRONG)
def test_what_an_admin_got_wrong_is_said_and_nothing_is_started_on_it(config: dict[str, Any], text: str) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        settings = {key: file.name if value == "FILE" else value for key, value in config.items()}
        with Hub(spawner=SIMPLE, GpuSlices=settings) as hub:
            for profile in ("cpu", "small"):
                with pytest.raises(Failed, match=text):
                    hub.start("alice", {"profile": profile})
            assert text in html.unescape(Person(hub, "bob").open("/hub/spawn"))
            assert hub.alive
            assert "Traceback" not in hub.log.read_text()


def test_waiting_comes_to_an_end_with_a_sentence() -> None:
    # what an admin preloads is kept, too
    preload = {"environment": {"LD_PRELOAD": "libm.so.6 libdl.so.2"}}
    with Hub(spawner=SIMPLE, GpuSlices={"wait_timeout": 1}, Spawner=preload) as hub:
        hub.start("alice", {"profile": "whole"})
        with pytest.raises(Failed) as refused:
            hub.start("bob", {"profile": "small"})
        assert str(refused.value) == (
            "4 GiB · 25 % did not come free in 1 second. 4 GiB · 25 % is not free now: one server has all of the "
            "Tesla T4. Wait until a server stops, or pick another profile."
        )
        assert list(hub.held()) == ["alice"]
        limiter, *rest = hub.call("alice", "env")["LD_PRELOAD"].split(":")
        assert limiter.endswith("/libvgpu.so")
        assert rest == ["libm.so.6", "libdl.so.2"]


def test_a_kernel_of_the_real_server_is_held_to_the_slice() -> None:
    pytest.importorskip("jupyterlab")
    real = {
        "cmd": [sys.executable, "-m", "jupyterhub.singleuser"],
        "args": ["--allow-root", "--ServerApp.log_level=ERROR"],
        "http_timeout": 120,
    }
    with Hub(spawner=SIMPLE, Spawner=real) as hub:
        hub.start("alice", {"profile": "small"})
        assert hub.run_in_kernel("alice", DRIVER) == f"1 4096 0 0 {OUT_OF_MEMORY}"
