"""The test cluster by hand: `python -m tests.cluster.rig up`, and how to use it then."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import click

from tests.cluster.rig import Cluster, ClusterError, programs, why_not

NAME = click.option("--name", default="dev", show_default=True, help="Which cluster.")


@click.group()
def main() -> None:
    """A real Kubernetes for tests, in namespaces of this machine."""
    if reason := why_not():
        raise click.ClickException(reason)


@main.command()
@NAME
@click.option("--nodes", default=1, show_default=True, help="How many nodes.")
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Where its files go, a new folder.")
@click.option("--audit", is_flag=True, help="Write every request to the API server into log/audit.jsonl.")
@click.option("--detach", is_flag=True, help="Return when it is ready, and let it run.")
def up(name: str, nodes: int, folder: Path | None, audit: bool, detach: bool) -> None:
    """Start a cluster, say how to use it, and end it on Ctrl-C."""
    cluster = Cluster(name, nodes=nodes, folder=folder, audit=audit)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    # a shell script starts its background jobs with this one ignored, and so would Python
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cluster.start(dies_with_us=not detach)
    try:
        click.echo(_how_to(cluster))
        if not detach:
            click.echo("\nCtrl-C ends it.")
            cluster.wait_end()
    except KeyboardInterrupt:
        click.echo("\nEnding")
    finally:
        if not detach:
            cluster.stop()


@main.command()
@NAME
def down(name: str) -> None:
    """End a cluster, or remove what a killed one left."""
    cluster = Cluster(name)
    if not cluster.handle.exists():
        raise ClusterError(f"There is no cluster named {name} and nothing left of one.")
    cluster.clean()


@main.command(context_settings={"ignore_unknown_options": True})
@NAME
@click.option("--node", type=int, help="On this node (0, 1 ...), instead of beside the control plane.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def shell(name: str, node: int | None, command: tuple[str, ...]) -> None:
    """Run a command in the cluster's network: `shell -- curl http://SERVICE-IP`; without one, a shell."""
    cluster = Cluster(name).attach()
    machine = cluster.control if node is None else cluster.nodes[node].machine
    line = machine.inside("env", f"--chdir={os.getcwd()}", *(command or (os.environ.get("SHELL", "sh"),)))
    os.execvpe(line[0], line, cluster.environment())


@main.command()
@NAME
@click.argument("archives", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def load(name: str, archives: tuple[Path, ...]) -> None:
    """Take the images of docker-archives into all nodes."""
    Cluster(name).attach().load(*archives)


@main.command()
@NAME
@click.argument("what", type=click.Choice(["start", "stop", "restart", "kill"]))
@click.argument("component")
def component(name: str, what: str, component: str) -> None:
    """Start, stop, restart or kill (SIGKILL) a part: `component restart kubelet-node0`."""
    parts = Cluster(name).attach().components
    if component not in parts:
        raise ClusterError(f"There is no component {component}: choose one of {', '.join(parts)}.")
    part = parts[component]
    {"start": part.start, "stop": part.stop, "restart": part.restart, "kill": lambda: part.stop(kill=True)}[what]()


@main.command()
@NAME
def status(name: str) -> None:
    """Nodes, pods, events and the ends of all logs."""
    click.echo(Cluster(name).attach().describe())


@main.command()
def build() -> None:
    """Build the programs, if they aren't yet, and print their folder."""
    click.echo(programs.ensure())


def _how_to(cluster: Cluster) -> str:
    rig = f"{sys.executable} -m tests.cluster.rig"
    return f"""\
The cluster {cluster.name} is ready: Kubernetes {programs.kubernetes_version()}, {len(cluster.nodes)} node(s).
  export KUBECONFIG={cluster.kubeconfig} PATH={programs.folder()}:$PATH
  kubectl get nodes                                     # helm and ctr are there too
  {rig} shell --name {cluster.name} -- CMD    # in its network, where services and pods are reached
  {rig} down --name {cluster.name}            # ends it
Logs: {cluster.folder}/log"""


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (ClusterError, programs.BuildError) as error:
        sys.exit(str(error))
