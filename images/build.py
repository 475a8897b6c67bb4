"""Build the images of images/Dockerfile by buildah, podman or docker, whichever there is: `make images` runs this.

With --debian no container registry is needed; with --archives they are files too, for `ctr images import` or
`docker load`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

if __name__ == "__main__":  # run as a file: its neighbour is found by name
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from images import debian_base

ROOT = Path(__file__).resolve().parent.parent
DOCKERFILE = ROOT / "images" / "Dockerfile"
IGNORE_FILE = ROOT / "images" / "Dockerfile.dockerignore"
TARGETS = ("scheduler", "device-plugin", "hub")
BUILDERS = ("buildah", "podman", "docker")
BASE_NAME = "localhost/hami-hub/debian"
# The parts of pip's settings that say where packages come from, by the environment variables pip itself reads.
PIP_SETTINGS = {"PIP_INDEX_URL": "index-url", "PIP_EXTRA_INDEX_URL": "extra-index-url", "PIP_TIMEOUT": "timeout"}
CA_FILES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
CA_INSIDE = "/run/secrets/ca"


class BuildError(RuntimeError):
    """The images can't be built.  Says why and what to do."""


@dataclass(frozen=True)
class Builder:
    """A program that builds from a Dockerfile.

    Attributes:
        environment: added to the caller's.
        quiet: its words are shown only when it fails.
    """

    program: str
    environment: dict[str, str] = field(default_factory=dict)
    quiet: bool = False

    def build(self, target: str, tag: str, arguments: dict[str, str]) -> None:
        """Build one target; layers that are there already are used again."""
        with _secrets() as secrets:
            more = [] if self.program == "docker" else ["--layers", f"--ignorefile={IGNORE_FILE}"]
            self._run(
                "build", "--file", str(DOCKERFILE), "--target", target, "--tag", tag, *more, *secrets,
                *(f"--build-arg={name}={value}" for name, value in arguments.items()), str(ROOT),
            )  # fmt: skip

    def take_base(self, rootfs: Path) -> str:
        """Make an image of a tar of a root file system, and return its name."""
        name = f"{BASE_NAME}:{rootfs.stem}"
        if self._ask("inspect", *([] if self.program == "docker" else ["--type=image"]), name).returncode == 0:
            return name
        if self.program == "buildah":
            (container,) = self._ask("from", "scratch").stdout.split()
            self._run("add", "--quiet", container, str(rootfs), "/")
            self._run("commit", "--quiet", "--rm", container, name)
        else:
            self._run("import", str(rootfs), name)
        return name

    def save(self, tag: str, archive: Path) -> None:
        """Write an image as a docker-archive."""
        part = archive.with_suffix(".part")
        part.unlink(missing_ok=True)
        if self.program == "buildah":
            self._run("push", "--quiet", tag, f"docker-archive:{part}:{tag}")
        else:
            self._run("save", "--output", str(part), tag)
        part.rename(archive)

    def forget_all(self) -> None:
        """Remove every image and layer of its store."""
        self._run("rmi", "--all", "--force")

    def _run(self, *arguments: str) -> None:
        output = subprocess.PIPE if self.quiet else None
        environment = {**os.environ, **self.environment}
        result = subprocess.run(
            [self.program, *arguments], env=environment, stdout=output, stderr=subprocess.STDOUT, text=True
        )
        if result.returncode:
            said = result.stdout or "Its own words stand above."
            raise BuildError(f"{self.program} {arguments[0]} failed. {said}")

    def _ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **self.environment}
        return subprocess.run([self.program, *arguments], env=environment, capture_output=True, text=True)


def find_builder(
    wanted: str | None = None, environment: dict[str, str] | None = None, *, quiet: bool = False
) -> Builder:
    """The builder called `wanted`, or the first of BUILDERS that works here.

    Raises:
        BuildError: there is none.
    """
    for program in [wanted] if wanted else BUILDERS:
        if shutil.which(program) and subprocess.run([program, "info"], capture_output=True).returncode == 0:
            # chroot needs no runtime beside buildah, and works in containers too
            isolation = {"BUILDAH_ISOLATION": os.environ.get("BUILDAH_ISOLATION", "chroot")}
            docker = {"DOCKER_BUILDKIT": "1"}
            own = docker if program == "docker" else isolation
            return Builder(program, {**own, **(environment or {})}, quiet)
    asked = wanted or "Of buildah, podman and docker none"
    raise BuildError(f"{asked} works here. Install one, on Debian and Ubuntu: apt-get install buildah")


def pip_settings(environment: dict[str, str]) -> tuple[str, Path | None]:
    """A pip.conf for the build, and the certificates it needs, from what the environment says of the network."""
    lines = [f"{key} = {environment[name]}" for name, key in PIP_SETTINGS.items() if environment.get(name)]
    if "PIP_INDEX_URL" not in environment and environment.get("UV_DEFAULT_INDEX"):
        lines.append(f"index-url = {environment['UV_DEFAULT_INDEX']}")
    files = (Path(environment[name]) for name in CA_FILES if environment.get(name))
    ca = next((path for path in files if path.is_file()), None)
    if ca:
        lines.append(f"cert = {CA_INSIDE}")
    return "\n".join(["[global]", *lines, ""]), ca


@contextmanager
def _secrets() -> Iterator[list[str]]:
    text, ca = pip_settings(dict(os.environ))
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as settings:
        settings.write(text)
        settings.flush()
        yield [f"--secret=id=pip,src={settings.name}", *([f"--secret=id=ca,src={ca}"] if ca else [])]


def build(
    builder: Builder,
    targets: Sequence[str],
    *,
    tag: str,
    prefix: str = "hami-hub",
    arguments: dict[str, str] | None = None,
    archives: Path | None = None,
) -> list[Path]:
    """Build the targets as PREFIX/TARGET:TAG, and return the archives that were written, if a folder was named."""
    written = []
    for target in targets:
        name = f"{prefix}/{target}:{tag}"
        builder.build(target, name, arguments or {})
        if archives:
            archives.mkdir(parents=True, exist_ok=True)
            builder.save(name, archives / f"{target}.tar")
            written.append(archives / f"{target}.tar")
    return written


def chart_version() -> str:
    """What the chart's images are tagged with unless a value says otherwise."""
    lines = (ROOT / "helm" / "hami-hub" / "Chart.yaml").read_text().splitlines()
    (version,) = (line.split('"')[1] for line in lines if line.startswith("appVersion:"))
    return version


@click.command(help=__doc__)
@click.argument("targets", nargs=-1, type=click.Choice(TARGETS))
@click.option(
    "--builder", "program", type=click.Choice(BUILDERS), help="Which program builds.  [default: the first that works]"
)
@click.option("--prefix", default="hami-hub", show_default=True, help="Registry and folder of the images' names.")
@click.option("--tag", default=chart_version, show_default="the chart's appVersion", help="Tag of the images.")
@click.option("--base", help="Base of the daemons: Debian with Python.  [default: see images/Dockerfile]")
@click.option("--debian", is_flag=True, help="Make the base from Debian's packages: no container registry is needed.")
@click.option("--hub-base", help="Base of the hub's image.  [default: see images/Dockerfile]")
@click.option("--archives", type=click.Path(path_type=Path), help="Write each image into this folder too.")
def main(
    targets: tuple[str, ...], program: str | None, prefix: str, tag: str, base: str | None, debian: bool,
    hub_base: str | None, archives: Path | None,
) -> None:  # fmt: skip
    try:
        builder = find_builder(program)
        base = builder.take_base(debian_base.rootfs()) if debian else base
        arguments = {name: value for name, value in (("BASE", base), ("HUB_BASE", hub_base)) if value}
        build(builder, targets or TARGETS, tag=tag, prefix=prefix, arguments=arguments, archives=archives)
    except (BuildError, debian_base.BaseError) as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
