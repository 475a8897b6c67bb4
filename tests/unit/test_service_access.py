"""Who may see and change what, and what of a hub's configuration the service gets."""

from __future__ import annotations

import json

import jupyterhub
import pytest
from traitlets.config import Config

import hami_hub
from hami_hub.service import setup as service_setup
from hami_hub.service.access import person, reading_only
from hami_hub.service.settings import ENV_SETTINGS, carried, received

ACCESS = "access:services!service=hami"


def who(*scopes: str):
    return person({"name": "ada", "groups": ["ml"], "scopes": [ACCESS, *scopes]})


@pytest.mark.parametrize(
    ("scopes", "sees_all", "edits_all"),
    [
        pytest.param((), False, False, id="anybody"),
        pytest.param(("custom:hami:view",), True, False, id="viewer"),
        pytest.param(("groups",), True, True, id="may edit groups"),
        pytest.param(("admin:groups", "groups", "read:groups"), True, True, id="admin"),
        pytest.param(("read:groups", "list:groups"), False, False, id="may read groups elsewhere"),
        pytest.param(("groups!group=ml",), False, False, id="may edit one group"),
    ],
)
def test_scopes_say_who_sees_and_edits_everything(scopes, sees_all, edits_all):
    assert (who(*scopes).sees_all, who(*scopes).edits_all) == (sees_all, edits_all)


def test_a_scope_for_one_group_is_for_that_group():
    lead = who("groups!group=ml", "admin:groups!group=bio")
    assert [lead.may_edit(group) for group in ("ml", "bio", "physics", "")] == [True, True, False, False]
    assert lead.may_see("ml")
    assert not lead.may_see("physics")


def test_while_the_hub_is_away_nobody_edits():
    admin = reading_only(who("groups"))
    assert admin.sees_all
    assert not admin.may_edit("ml")


@pytest.mark.parametrize("model", [{}, {"name": None, "scopes": None}, {"scopes": [1, "groups!user=x", "groups!"]}])
def test_an_odd_answer_of_the_hub_gives_no_rights(model):
    assert not person(model).sees_all
    assert not person(model).edits


# --- setup -----------------------------------------------------------------------------------------------------------


def test_one_line_adds_service_roles_and_scope(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    c = Config()
    c.GpuSlices.default_quota = {"hami.vram": "4GiB"}
    hami_hub.setup(c, viewers=["vera"])
    (service,) = c.JupyterHub.services
    settings = json.loads(service["environment"][ENV_SETTINGS])
    assert service["name"] == "hami"
    assert settings["GpuSlices"]["default_quota"] == {"hami.vram": "4GiB"}
    assert settings["GpuSlices"]["journal_url"] == f"sqlite:///{tmp_path}/hami-hub.sqlite"
    roles = {role["name"]: role for role in c.JupyterHub.load_roles}
    assert roles["hami-page"]["services"] == ["hami"]
    assert roles["hami-viewer"]["users"] == ["vera"]
    assert "custom:hami:view" in c.JupyterHub.custom_scopes
    assert ACCESS in _scopes_of_everybody(c)


def _scopes_of_everybody(c):
    if jupyterhub.version_info[0] >= 6:
        return c.JupyterHub.extra_user_scopes
    return next(role["scopes"] for role in c.JupyterHub.load_roles if role["name"] == "user")


def test_what_is_configured_already_stays():
    c = Config()
    c.JupyterHub.services = [{"name": "cull"}]
    c.JupyterHub.load_roles = [{"name": "user", "scopes": ["self", "access:services!service=cull"]}]
    c.JupyterHub.custom_scopes = {"custom:x": {"description": "x"}}
    c.JupyterHub.template_paths = ["mine"]
    hami_hub.setup(c, url="http://hub:10555")
    assert [service["name"] for service in c.JupyterHub.services] == ["cull", "hami"]
    assert c.JupyterHub.services[1]["url"] == "http://hub:10555"
    (user,) = [role for role in c.JupyterHub.load_roles if role["name"] == "user"]
    assert user["scopes"] == ["self", "access:services!service=cull", ACCESS]
    assert set(c.JupyterHub.custom_scopes) == {"custom:x", "custom:hami:view"}
    assert c.JupyterHub.template_paths[0] == "mine"


def test_what_was_only_added_to_stays():
    c = Config()
    c.JupyterHub.services.append({"name": "cull"})
    c.JupyterHub.load_roles.extend([{"name": "cull", "scopes": []}])
    hami_hub.setup(c)
    assert [service["name"] for service in c.JupyterHub.services] == ["cull", "hami"]
    assert c.JupyterHub.load_roles[0]["name"] == "cull"


@pytest.mark.parametrize(
    ("spawner", "asked", "environment", "cards"),
    [
        pytest.param("hami-systemd", "auto", {}, "machine", id="one machine"),
        pytest.param("hami-kube", "auto", {}, "cluster", id="by the spawner's name"),
        pytest.param("", "auto", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "cluster", id="in a pod"),
        pytest.param("hami-docker", "machine", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "machine", id="as asked"),
    ],
)
def test_where_the_cards_are_is_found_out(monkeypatch, spawner, asked, environment, cards):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    c = Config()
    c.JupyterHub.spawner_class = spawner
    c.GpuPage.cards = asked
    hami_hub.setup(c)
    environment = c.JupyterHub.services[0]["environment"]
    assert received(environment).GpuPage.cards == cards
    # whose server a pod is stands in the journal: nobody's server or its state is asked for
    scopes = next(role["scopes"] for role in c.JupyterHub.load_roles if role["name"] == "hami-page")
    assert scopes == ["list:groups", "read:groups"]


def test_secrets_of_the_configuration_are_not_handed_on():
    c = Config()
    c.GpuSlices.journal_url = "sqlite:////srv/journal.sqlite"
    c.JupyterHub.cookie_secret = b"secret"
    c.GpuSlices.profiles = [{"name": "cpu"}]
    assert carried(c) == {
        "GpuSlices": {"journal_url": "sqlite:////srv/journal.sqlite"},
        "GpuCluster": {},
        "GpuPage": {},
        "KubeSpawner": {},
    }


def test_a_setting_that_is_no_data_is_refused_in_words():
    c = Config()
    c.GpuSlices.default_quota = print
    with pytest.raises(
        TypeError, match=r"c\.GpuSlices\.default_quota is <built-in function print>, .* Write it as plain data"
    ):
        hami_hub.setup(c)


def test_no_journal_stays_none():
    c = Config()
    c.GpuSlices.journal_url = ""
    hami_hub.setup(c)
    assert received(c.JupyterHub.services[0]["environment"]).GpuSlices.journal_url == ""


def test_the_service_meets_the_hubs_driver(monkeypatch):
    monkeypatch.setenv("HAMI_SIM_DIR", "/dev/shm/x")
    monkeypatch.setenv("AWS_SECRET", "s")
    c = Config()
    service_setup.extend(c)
    environment = c.JupyterHub.services[0]["environment"]
    assert environment["HAMI_SIM_DIR"] == "/dev/shm/x"
    assert "AWS_SECRET" not in environment
