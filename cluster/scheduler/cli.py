"""The scheduler's command line.  Every option may be given in the environment too."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml
from kubernetes.aio.config import ConfigException

from cluster.settings import Settings, SettingsError, read_settings

from .daemon import Address, Place, run
from .kube_scheduler import kube_scheduler_configuration

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _address(_context: click.Context, _option: click.Parameter, text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _listen(what: str, default: str, *, help: str) -> Callable[[_Command], _Command]:  # noqa: A002  click's word
    return click.option(
        f"--{what}-listen",
        metavar="HOST:PORT",
        callback=_address,
        envvar=f"HAMI_{what.upper()}_LISTEN",
        default=default,
        show_default=True,
        help=help,
    )


def _settings(path: Path | None) -> Settings:
    try:
        return read_settings(path) if path is not None else Settings()
    except SettingsError as error:
        raise click.ClickException(str(error)) from None


_FILE = click.Path(path_type=Path, dir_okay=False)
_CONFIG = click.option("--config", type=_FILE, envvar="HAMI_CONFIG", help="config.yaml; none: all defaults.")
_KUBECONFIG = click.option(
    "--kubeconfig", type=_FILE, envvar="KUBECONFIG", help="How to reach the API server; none: as a pod does."
)
_NAMESPACE = click.option(
    "--namespace", envvar="POD_NAMESPACE", default="hami-hub", show_default=True, help="The scheduler's own."
)


@click.group(invoke_without_command=True)
@_CONFIG
@_KUBECONFIG
@_NAMESPACE
@click.option("--service", envvar="HAMI_SERVICE", default="hami-scheduler", show_default=True, help="Its Service.")
@click.option(
    "--webhook", envvar="HAMI_WEBHOOK", default="hami-hub", show_default=True, help="Its MutatingWebhookConfiguration."
)
@click.option(
    "--secret", envvar="HAMI_SECRET", default="hami-hub-certs", show_default=True, help="Secret for its certificates."
)
@click.option(
    "--config-map", envvar="HAMI_CONFIG_MAP", default="hami-hub", show_default=True, help="ConfigMap for hubs."
)
@click.option(
    "--tls-folder",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="HAMI_TLS_FOLDER",
    help="tls.crt, tls.key and ca.crt that somebody else (cert-manager) renews; none: its own CA.",
)
@_listen("extender", "127.0.0.1:9398", help="For kube-scheduler beside it.")
@_listen("https", "0.0.0.0:9443", help="Webhook and inventory.")
@_listen("metrics", "0.0.0.0:9395", help="/metrics, /healthz, /readyz.")
@click.option(
    "--drain-seconds",
    envvar="HAMI_DRAIN_SECONDS",
    type=click.FloatRange(0, 60),
    default=5.0,
    show_default=True,
    help="How long it still answers after SIGTERM.",
)
@click.option(
    "--log-level",
    envvar="HAMI_LOG_LEVEL",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
)
@click.pass_context
def main(
    context: click.Context,
    config: Path | None,
    kubeconfig: Path | None,
    namespace: str,
    service: str,
    webhook: str,
    secret: str,
    config_map: str,
    tls_folder: Path | None,
    extender_listen: Address,
    https_listen: Address,
    metrics_listen: Address,
    drain_seconds: float,
    log_level: str,
) -> None:
    """Places slices: asked by kube-scheduler, by the API server and by hubs."""
    if context.invoked_subcommand is not None:
        return
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    place = Place(
        kubeconfig=kubeconfig,
        namespace=namespace,
        service=service,
        webhook=webhook,
        secret=secret,
        config_map=config_map,
        tls_folder=tls_folder,
        extender=extender_listen,
        https=https_listen,
        metrics=metrics_listen,
        drain_seconds=drain_seconds,
    )
    try:
        asyncio.run(run(_settings(config), place))
    except ConfigException as error:
        raise click.ClickException(f"The API server can't be found: {error}") from None


@main.command("kube-scheduler-config")
@_CONFIG
@_KUBECONFIG
@_NAMESPACE
@click.option("--lease", default="hami-scheduler", show_default=True, help="By which replicas agree who schedules.")
@click.option("--extender", default="http://127.0.0.1:9398", show_default=True, help="URL of the scheduler beside it.")
def kube_scheduler_config(
    config: Path | None, kubeconfig: Path | None, namespace: str, lease: str, extender: str
) -> None:
    """Print the configuration that kube-scheduler needs beside this scheduler."""
    text = kube_scheduler_configuration(
        _settings(config), namespace=namespace, lease=lease, extender=extender, kubeconfig=kubeconfig
    )
    click.echo(yaml.safe_dump(text, sort_keys=False), nl=False)
