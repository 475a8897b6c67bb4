"""`c.GpuPage`: what an admin sets about the page, and how the service gets it from the hub's configuration.

The service is a process of its own and doesn't read the hub's configuration file, which may hold secrets and do things.
`carried` takes what the service needs, `received` gives it back there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from traitlets import Enum, Unicode
from traitlets.config import Config, SingletonConfigurable

ENV_SETTINGS = "HAMI_HUB_PAGE"

# What the service asks of other parts' settings.
_CARRIED = {
    "GpuSlices": ("default_quota", "journal_url", "language", "slice_root", "split_count"),
    "GpuCluster": ("ca_file", "config_map", "namespace", "timeout", "token_file", "url"),
    "GpuPage": ("cards", "usage_url"),
    "KubeSpawner": ("k8s_api_host", "k8s_api_ssl_ca_cert", "k8s_api_verify_ssl"),
}
# What it takes to meet the same driver, or the same cluster, as the hub; and to be known as part of a demo.
PASSED_ON = (
    "HAMI_DEMO_DIR",
    *("HAMI_SIM_DIR", "HAMI_SIM_PROFILE", "HAMI_SIM_CARDS", "HAMI_SIM_MIG", "LD_LIBRARY_PATH"),
    *("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "KUBECONFIG", "POD_NAMESPACE"),
)


class GpuPage(SingletonConfigurable):
    """The page about cards, quotas and use, at /services/hami/."""

    cards = Enum(
        ("auto", "machine", "cluster"),
        "auto",
        help="""
        Where the page looks for cards: on this machine, or at the GPU scheduler of a Kubernetes cluster. "auto": at the
        scheduler if the hub runs in a cluster or its spawner is for Kubernetes.

        Example::

            c.GpuPage.cards = "cluster"

        Default: "auto".
        """,
    ).tag(config=True)

    usage_url = Unicode(
        "",
        help="""
        On Kubernetes: where the device plugins' metrics are, from which the page knows how much of each slice is really
        in use. All addresses behind the name are asked, so let it be that of the chart's headless Service.

        Example::

            c.GpuPage.usage_url = "http://hami-device-plugin.hami-hub.svc:9394/metrics"

        Default: none; then the page shows what is given out, and not what is in use of it.
        """,
    ).tag(config=True)

    @property
    def in_cluster(self) -> bool:
        """Whether the cards are a cluster's."""
        return self.cards == "cluster" or (self.cards == "auto" and "KUBERNETES_SERVICE_HOST" in os.environ)


def carried(config: Config) -> dict[str, dict[str, Any]]:
    """What the service needs of the hub's configuration, as plain data.

    Raises:
        TypeError: a setting that can't be carried, like a function.
    """
    found: dict[str, dict[str, Any]] = {}
    for section, names in _CARRIED.items():
        values = config.get(section, {})
        found[section] = {name: _plain(f"c.{section}.{name}", values[name]) for name in names if name in values}
    return found


def received(environment: Mapping[str, str] = os.environ) -> Config:
    """The configuration that `carried` made, in the service."""
    return Config(json.loads(environment.get(ENV_SETTINGS, "{}")))


def _plain(name: str, value: Any) -> Any:
    if hasattr(value, "get_value"):  # the file only added to it: c.GpuSlices.default_quota.update(…)
        value = value.get_value({} if name.endswith("quota") else "")
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} is {value!r}, which can't be handed to the page's service. Write it as plain data."
        ) from None
