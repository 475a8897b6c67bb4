"""`python -m cluster.deviceplugin`: the device plugin and agent of one node.

Every option may also be given by the environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import click
from kubernetes.aio.config import ConfigException

from cluster.apiserver import connect
from cluster.settings import Settings, SettingsError, read_settings
from hami_hub.native import (
    ENV_SIM_CARDS,
    ENV_SIM_DIR,
    ENV_SIM_MIG,
    ENV_SIM_PROFILE,
    NativeMissingError,
    limiter_path,
    sim_folder,
)

from . import library
from .agent import Agent, Places
from .base import Base, NvidiaBase, SimulatedBase
from .library import Library
from .slices import Folders
from .web import serve

_log = logging.getLogger("cluster.deviceplugin")
_USER_AGENT = "hami-hub-device-plugin"
_NVML = "libnvidia-ml.so.1"


@dataclass(frozen=True, slots=True)
class _Options:
    places: Places
    nvidia: tuple[Path, ...]
    libraries: Path
    host: str
    port: int
    kubeconfig: Path | None
    look_seconds: float
    grace_seconds: float


_folder = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.option("--config", "config_file", envvar="HAMI_CONFIG", type=click.Path(path_type=Path), help="The settings.")
@click.option("--node-name", envvar="NODE_NAME", required=True, help="This node's name in Kubernetes.")
@click.option("--kubelet-dir", envvar="KUBELET_DIR", type=_folder, default="/var/lib/kubelet", show_default=True)
@click.option("--run-dir", envvar="HAMI_RUN_DIR", type=_folder, default="/run/hami", show_default=True)
@click.option("--cdi-dir", envvar="HAMI_CDI_DIR", type=_folder, default="/var/run/cdi", show_default=True)
@click.option(
    "--nvidia-cdi-dir",
    envvar="HAMI_NVIDIA_CDI_DIRS",
    type=_folder,
    multiple=True,
    help="Where the node's own specification of its cards is; /etc/cdi and --cdi-dir if not given.",
)
@click.option("--library-dir", envvar="HAMI_LIBRARY_DIR", type=_folder, default="/usr/local/vgpu", show_default=True)
@click.option("--listen", envvar="HAMI_PLUGIN_LISTEN", default="0.0.0.0:9394", show_default=True, help="Metrics.")
@click.option("--kubeconfig", envvar="KUBECONFIG", type=click.Path(path_type=Path), help="Outside of a cluster.")
@click.option(
    "--look-seconds", envvar="HAMI_LOOK_SECONDS", type=float, default=10.0, help="Between looks at the cards."
)
@click.option(
    "--grace-seconds", envvar="HAMI_GRACE_SECONDS", type=float, default=30.0, help="Until left-overs are removed."
)
@click.option(
    "--log-level",
    envvar="HAMI_LOG_LEVEL",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
)
def main(
    *,
    config_file: Path | None,
    node_name: str,
    kubelet_dir: Path,
    run_dir: Path,
    cdi_dir: Path,
    nvidia_cdi_dir: tuple[Path, ...],
    library_dir: Path,
    listen: str,
    kubeconfig: Path | None,
    look_seconds: float,
    grace_seconds: float,
    log_level: str,
) -> None:
    """Hand slices of this node's cards to containers."""
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    host, _, port = listen.rpartition(":")
    if not (host and port.isdigit()):
        raise click.BadParameter(f'"{listen}" is no address to listen at. Write it like 0.0.0.0:9394.')
    try:
        settings = read_settings(config_file) if config_file else Settings()
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    options = _Options(
        places=Places(node_name, kubelet_dir, Folders(run=run_dir, cdi=cdi_dir)),
        nvidia=nvidia_cdi_dir or (Path("/etc/cdi"), cdi_dir),
        libraries=library_dir,
        host=host,
        port=int(port),
        kubeconfig=kubeconfig,
        look_seconds=look_seconds,
        grace_seconds=grace_seconds,
    )
    try:
        asyncio.run(_run(options, settings))
    except (OSError, NativeMissingError, ConfigException) as error:
        raise click.ClickException(f"The device plugin can't start: {error}") from None


async def _run(options: _Options, settings: Settings) -> None:
    simulated = settings.device_plugin.simulated_cards
    installed = library.install(
        options.libraries, limiter=limiter_path(), simulated=sim_folder() if simulated.count else None
    )
    base = _base(options, settings, installed)
    async with connect(options.kubeconfig, user_agent=_USER_AGENT) as api:
        agent = Agent(
            options.places,
            settings,
            api,
            base=base,
            library=installed,
            look_seconds=options.look_seconds,
            grace=options.grace_seconds,
        )
        async with serve(options.host, options.port, registry=agent.registry, not_ready=agent.not_ready) as port:
            _log.info("Node %s, metrics at port %s", options.places.node, port)
            await _until_told(agent)


async def _until_told(agent: Agent) -> None:
    """Run until a signal; what runs in slices is left alone."""
    running = asyncio.ensure_future(agent.run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, running.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    _log.info("Ended")


def _base(options: _Options, settings: Settings, installed: Library) -> Base:
    simulated = settings.device_plugin.simulated_cards
    if installed.simulated is None:
        return NvidiaBase(options.nvidia)
    state = options.places.folders.simulated
    state.mkdir(parents=True, exist_ok=True)
    profile = simulated.profile.lower()
    os.environ[ENV_SIM_MIG] = simulated.mig
    _meet_simulated(state, profile=profile, count=simulated.count)
    return SimulatedBase(installed.simulated, installed.simulated_inside, state, profile=profile, count=simulated.count)


def _meet_simulated(state: Path, *, profile: str, count: int) -> None:
    """Let this process's NVML be the simulated card's: a library that is loaded is found by its name from then on."""
    os.environ |= {ENV_SIM_DIR: str(state), ENV_SIM_PROFILE: profile, ENV_SIM_CARDS: str(count)}
    ctypes.CDLL(str(sim_folder() / _NVML), mode=ctypes.RTLD_GLOBAL)


if __name__ == "__main__":
    main()
