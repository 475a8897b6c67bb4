"""The plugin for The Littlest JupyterHub: hooks that TLJH calls, and a configuration that runs a real hub."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace

import pluggy
import pytest
from hub_process import Hub
from systemd_container import SystemdContainer
from test_starting import DRIVER, OUT_OF_MEMORY
from traitlets.config import Config

pytest.importorskip("systemdspawner", reason="jupyterhub-systemdspawner is not installed")

import hami_hub.tljh as plugin

# HAMI_TEST_TLJH names a checkout of the real one.
TLJH = Path(os.environ.get("HAMI_TEST_TLJH", Path(__file__).parent / "tljh_stand_in"))


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[pluggy.PluginManager]:
    """As TLJH finds its plugins."""
    monkeypatch.syspath_prepend(str(TLJH))
    from tljh import hooks

    manager = pluggy.PluginManager("tljh")
    manager.add_hookspecs(hooks)
    manager.load_setuptools_entrypoints("tljh")
    assert plugin in manager.get_plugins()
    manager.check_pending()  # a hook that TLJH doesn't have would never be called
    yield manager
    for name in [name for name in sys.modules if name.split(".")[0] == "tljh"]:
        del sys.modules[name]


def test_the_hooks_are_tljhs_and_name_packages_of_this_project(plugins: pluggy.PluginManager) -> None:
    assert plugins.hook.tljh_extra_hub_pip_packages() == [["hami-hub[systemd]"]]
    assert plugins.hook.tljh_extra_user_pip_packages() == [["hami-hub[notebook]"]]
    assert [each.value for each in entry_points(group="tljh")] == ["hami_hub.tljh"]


def test_its_settings_are_read_before_the_page_is_set_up(
    plugins: pluggy.PluginManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "hami_hub.py").write_text('c.GpuSlices.default_quota = {"hami.vram": "8 GiB"}\n')
    monkeypatch.setenv("TLJH_INSTALL_PREFIX", str(tmp_path))
    c = Config()
    c.JupyterHub.services = [{"name": "cull-idle"}]
    plugins.hook.tljh_custom_jupyterhub_config(c=c)
    assert c.JupyterHub.spawner_class == "hami_hub.spawner.tljh.GpuUserCreatingSpawner"
    assert [service["name"] for service in c.JupyterHub.services] == ["cull-idle", "hami"]
    assert "8 GiB" in str(c.JupyterHub.services[1]["environment"])


def test_the_hubs_service_is_let_see_the_cards(
    plugins: pluggy.PluginManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(plugin, "_DROP_IN", tmp_path / "jupyterhub.service.d" / "hami-hub.conf")
    fake = SimpleNamespace(run=lambda command, check: calls.append(command))
    monkeypatch.setattr(plugin, "subprocess", fake)
    plugins.hook.tljh_post_install()
    assert (tmp_path / "jupyterhub.service.d" / "hami-hub.conf").read_text() == "[Service]\nPrivateDevices=no\n"
    assert calls == [["systemctl", "daemon-reload"], ["systemctl", "try-restart", "jupyterhub"]]


@pytest.mark.tljh
def test_somebody_without_an_account_gets_one_and_is_held_to_the_slice(machine: SystemdContainer) -> None:
    for group in ("jupyterhub-users", "jupyterhub-admins"):  # as its installer does
        machine.run("groupadd", "--force", group, check=True)
    machine.run("mkdir", "-p", "/var/homes", check=True)
    machine.run("useradd", "-D", "-b", "/var/homes", check=True)
    environment = {"PYTHONPATH": f"{TLJH}:{os.environ.get('PYTHONPATH', '')}"}
    config = {"unit_name_template": "jupyter-{USERNAME}"}
    spawner = "hami_hub.spawner.tljh.GpuUserCreatingSpawner"
    with Hub(spawner=spawner, container=machine, environment=environment, SystemdSpawner=config) as hub:
        hub.start("newcomer", {"profile": "small"})
        assert hub.run("newcomer", "import getpass; print(getpass.getuser())") == "jupyter-newcomer"
        assert hub.run("newcomer", DRIVER) == f"1 4096 0 0 {OUT_OF_MEMORY}"
        *_, pid = hub.processes_of("newcomer")
        assert "jupyter-newcomer.service" in hub.inside("cat", f"/proc/{pid}/cgroup")
        hub.stop("newcomer")
        hub.until_held()
        assert "Traceback" not in hub.log.read_text()
