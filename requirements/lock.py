"""Pin what the project stands on: `make lock` runs this and rewrites the *.txt files beside it.

What is wanted is said once, in pyproject.toml; these files say which versions were tested, with their hashes.

- build.txt: compiles the native parts
- demo.txt: what `make demo` starts
- cluster.txt: goes into the images of the Kubernetes daemons: what they import, and nothing that only a hub needs
- test.txt: demo.txt and build.txt, and what the tests and the linters use
- hub5.txt: the oldest JupyterHub and KubeSpawner that are supported, and what the tests of hubs use
- torch.txt: demo.txt, PyTorch and what `make prove` uses, for machines with a card.  It has other CUDA headers than
  build.txt, and therefore an environment of its own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("requirements")
# scikit-build-core asks for these by itself when the machine has none that is new enough.
BUILD_TOOLS = ["cmake>=3.22", "ninja>=1.10"]
# as in zero-to-jupyterhub 4.2, which has the same KubeSpawner up to 4.4
OLDEST_HUB = ["jupyterhub==5.3.*", "jupyterhub-kubespawner==7.0.*"]
HUB_TESTS_NEED = ("hypothesis", "pluggy", "pytest", "requests")
# what the daemons use of the wheel's own dependencies; the others are for the hub and the notebook
DAEMONS_NEED = ("click", "nvidia-ml-py")


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lock("build", "-", stdin="\n".join([*project["build-system"]["requires"], *BUILD_TOOLS]))
    lock("demo", "pyproject.toml", "--extra", "demo", "--constraint", str(FOLDER / "build.txt"))
    constraints = ["--constraint", str(FOLDER / "demo.txt")]
    lock("cluster", "-", *constraints, stdin="\n".join(daemon_requirements(project["project"])))
    tested = [*constraints, "--constraint", str(FOLDER / "cluster.txt")]
    lock("test", "pyproject.toml", str(FOLDER / "build.txt"), "--extra", "test", "--extra", "lint", *tested)
    spawners = ["--extra", "demo", "--extra", "docker", "--extra", "kube", "--extra", "systemd"]
    lock("hub5", "pyproject.toml", "-", *spawners, stdin="\n".join(hub_tests(project["project"])))
    lock("torch", "pyproject.toml", "--extra", "prove", *constraints)


def daemon_requirements(project: dict[str, Any]) -> list[str]:
    own = [wanted for wanted in project["dependencies"] if wanted.startswith(DAEMONS_NEED)]
    return [*own, *project["optional-dependencies"]["cluster"]]


def hub_tests(project: dict[str, Any]) -> list[str]:
    tests = project["optional-dependencies"]["test"]
    return [*OLDEST_HUB, *(wanted for wanted in tests if wanted.startswith(HUB_TESTS_NEED))]


def lock(name: str, *wanted: str, stdin: str | None = None) -> None:
    """Write requirements/NAME.txt.  Versions that stand there stay, unless `make lock` got UPGRADE=1."""
    command = [
        Path(sys.executable).with_name("uv"), "pip", "compile", "--quiet",
        "--universal", "--python-version", "3.10", "--generate-hashes", "--no-annotate",
        "--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command", "make lock",
        *wanted, "--output-file", FOLDER / f"{name}.txt", *sys.argv[1:],
    ]  # fmt: skip
    subprocess.run(command, input=stdin, text=True, cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
