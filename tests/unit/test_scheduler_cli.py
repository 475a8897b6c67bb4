from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from cluster.scheduler.cli import main
from cluster.scheduler.daemon import Address


def run(*arguments: str):
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_kube_schedulers_configuration_asks_us_about_every_node_and_all_our_resources(tmp_path):
    config = tmp_path / "config.yaml"
    config.write_text("resources: {memory: example.com/vram}\nscheduler: {name: mine}\n")
    made = yaml.safe_load(run("kube-scheduler-config", f"--config={config}", "--namespace=gpus", "--lease=mine").stdout)
    (extender,) = made["extenders"]
    assert extender["urlPrefix"].startswith("http://127.0.0.1:")
    others = {f"nvidia.com/{name}" for name in ("gpu", "gpumem-percentage", "gpucores", "priority")}
    assert {entry["name"] for entry in extender["managedResources"]} == {"example.com/vram", *others}
    assert all(entry["ignoredByScheduler"] for entry in extender["managedResources"])
    assert made["percentageOfNodesToScore"] == 100
    assert made["profiles"] == [{"schedulerName": "mine"}]
    assert (made["leaderElection"]["resourceName"], made["leaderElection"]["resourceNamespace"]) == ("mine", "gpus")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("scheduler: {nmae: x}", "nmae"),
        ("scheduler: {reservationSeconds: 1}", "reservationSeconds"),
        ("[", "config.yaml"),
    ],
)
def test_settings_that_cannot_be_are_told_in_one_line(tmp_path, text, word):
    config = tmp_path / "config.yaml"
    config.write_text(text)
    said = run(f"--config={config}")
    assert said.exit_code == 1
    assert word in said.stderr
    assert "Traceback" not in said.stderr


def test_an_address_that_is_none_is_told():
    said = run("--extender-listen=here")
    assert said.exit_code == 2
    assert "here" in said.stderr


@pytest.mark.parametrize(
    ("text", "host", "port"), [("127.0.0.1:9398", "127.0.0.1", 9398), ("[::1]:80", "::1", 80), (":9395", "", 9395)]
)
def test_addresses(text, host, port):
    assert Address.parse(text) == Address(host, port)
