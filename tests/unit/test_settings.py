"""The daemons' one file: every key is known and in force, or refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.settings import Settings, SettingsError, parse_settings, read_settings


def test_an_empty_file_is_all_defaults() -> None:
    assert parse_settings("  \n") == Settings()


def test_keys_are_camel_case() -> None:
    settings = parse_settings(
        "resources: {memoryPercentage: acme.com/share}\n"
        "scheduler: {defaultMem: 2048, takeOver: [other]}\n"
        "devicePlugin: {deviceSplitCount: 4, simulatedCards: {count: 2, profile: A10}}\n"
    )
    assert settings.resources.memory_percentage == "acme.com/share"
    assert settings.scheduler.default_mem == 2048
    assert settings.scheduler.take_over == ("other",)
    assert settings.device_plugin.simulated_cards.profile == "A10"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("scheduler: {defaultMemory: 1}", "defaultMemory", id="misspelt"),
        pytest.param("scheduler: {defaultCores: 101}", "100", id="too much"),
        pytest.param("scheduler: {defaultMem: -1}", "0", id="negative"),
        pytest.param("scheduler: {nodePolicy: best}", "nodePolicy", id="unknown policy"),
        pytest.param("devicePlugin: {deviceSplitCount: 0}", "deviceSplitCount", id="no slices"),
        pytest.param("devicePlugin: {deviceMemoryScaling: '-2'}", "deviceMemoryScaling", id="scaling"),
        pytest.param("- a list", "object", id="not a mapping"),
        pytest.param("a: [", "settings can't be used", id="not YAML"),
    ],
)
def test_what_is_wrong_is_said(text: str, words: str) -> None:
    with pytest.raises(SettingsError, match="can't be used") as error:
        parse_settings(text)
    assert words in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"config\.yaml can't be read: No such file"):
        read_settings(tmp_path / "config.yaml")


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("scheduler: 1\n")
    with pytest.raises(SettingsError, match=r"config\.yaml: The settings can't be used"):
        read_settings(path)
