"""What docs/jupyterhub-on-kubernetes.md tells admins to write is what the hub understands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("kubespawner", reason="jupyterhub-kubespawner is not installed")

from importlib.metadata import entry_points

from kubespawner import KubeSpawner
from traitlets.config import Config

from hami_hub.core.profiles import parse_profiles
from hami_hub.core.quota import parse_quota
from hami_hub.service.settings import ENV_SETTINGS, GpuPage, received
from hami_hub.spawner import GpuSlices
from hami_hub.spawner.kube import GpuCluster, GpuKubeSpawner
from hami_hub.spawner.kube.words import SENTENCES

PAGE = (Path(__file__).parents[2] / "docs" / "jupyterhub-on-kubernetes.md").read_text()
OURS = {"GpuSlices": GpuSlices, "GpuCluster": GpuCluster, "GpuKubeSpawner": GpuKubeSpawner, "GpuPage": GpuPage}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def values(key: str) -> Any:
    """The values for a chart in which that key stands."""
    [found] = (block for block in blocks("yaml") if f"{key}:" in block)
    return yaml.safe_load(found)


def known(config: Any) -> None:
    """Every setting is one that there is."""
    for section, values in config.items():
        if section in OURS:
            assert set(values) <= set(OURS[section].class_trait_names(config=True)), section


def test_the_values_for_zero_to_jupyterhub_are_understood() -> None:
    config = values("profile_overrides")["hub"]["config"]
    known(config)
    assert config["JupyterHub"]["spawner_class"] == "hami-kube"
    names = {profile.name for profile in parse_profiles(config["GpuSlices"]["profiles"])}
    for name, overrides in config["GpuKubeSpawner"]["profile_overrides"].items():
        assert name in names
        assert set(overrides) <= set(KubeSpawner.class_trait_names(config=True))


@pytest.mark.parametrize("block", blocks("python"))
def test_the_settings_of_any_other_hub_are_understood(block: str) -> None:
    config: Any = Config()
    exec(block, {"c": config})
    known(config)
    if "GpuSlices" in config:
        parse_profiles(config.GpuSlices.profiles)


def test_the_values_that_switch_on_quotas_and_the_page_do_so() -> None:
    said = values("extraConfig")
    hub = said["hub"]
    known(hub["config"])
    assert parse_quota(hub["config"]["GpuSlices"]["default_quota"])[1] == ()
    config: Any = Config(values("profile_overrides")["hub"]["config"])
    for section, settings in hub["config"].items():
        config[section].update(settings)
    [code] = hub["extraConfig"].values()
    exec(code, {"c": config})
    [service] = config.JupyterHub.services
    given = received({ENV_SETTINGS: service["environment"][ENV_SETTINGS]})
    assert given.GpuPage == {"cards": "cluster", "usage_url": hub["config"]["GpuPage"]["usage_url"]}
    assert given.GpuSlices.default_quota == hub["config"]["GpuSlices"]["default_quota"]
    # one port, from the proxy to the page
    [port], [inside] = hub["service"]["extraPorts"], hub["networkPolicy"]["ingress"]
    [outside] = said["proxy"]["chp"]["networkPolicy"]["egress"]
    assert port["port"] == port["targetPort"]
    assert service["url"] == f"http://hub:{port['port']}"
    assert inside["ports"] == outside["ports"] == [{"port": port["port"]}]


def test_a_profile_list_is_what_kubespawner_takes() -> None:
    [profile, gpu] = values("extra_resource_limits")["singleuser"]["profileList"]
    assert "kubespawner_override" not in profile
    assert set(gpu["kubespawner_override"]) <= set(KubeSpawner.class_trait_names(config=True))


def test_hami_kube_is_what_the_project_declares() -> None:
    declared = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert 'hami-kube = "hami_hub.spawner.kube:GpuKubeSpawner"' in declared
    found = entry_points(group="jupyterhub.spawners", name="hami-kube")
    assert all(each.load() is GpuKubeSpawner for each in found)


def test_every_sentence_is_plain_text() -> None:
    assert not [key for key, text in SENTENCES.items() if "<" in text or "\n" in text]
