"""The wheel: everything in it, and enough of it to work without the source tree."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(700)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    # the build tools are pinned in requirements/test.txt: nothing is downloaded
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT)], check=True, timeout=600)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel, and its dependencies from the environment of this test."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # searched last, and without its own .pth files, an editable install's among them
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


def run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *arguments], cwd="/", capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
    )


def test_one_wheel_for_every_python_on_this_kind_of_machine(wheel: Path) -> None:
    assert wheel.name.endswith(f"-py3-none-linux_{platform.machine()}.whl")


def test_everything_is_in_it_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {path for path in (ROOT / "hami_hub").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    expected = {str(path.relative_to(ROOT)) for path in sources}
    expected |= {f"hami_hub/_notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb")}
    native = ("libvgpu.so", "sim/libcuda.so.1", "sim/libnvidia-ml.so.1")
    expected |= {f"hami_hub/_native/{name}" for name in native}
    assert expected <= names
    strangers = {name for name in names - expected if not name.startswith(("hami_hub-", "hami_hub/_notebooks/"))}
    assert strangers == set()


def test_it_works_without_the_source_tree(python: Path) -> None:
    where = run(python, "-c", "import hami_hub; print(hami_hub.__file__)").stdout
    assert str(python.parents[1]) in where
    assert "demo" in run(python, "-m", "hami_hub.cli", "--help").stdout
    findings = json.loads(run(python, "-m", "hami_hub.cli", "doctor", "--json").stdout)
    (limiter,) = [finding for finding in findings if finding["check"] == "limiter"]
    assert limiter["verdict"] == "good", limiter["text"]
    assert str(python.parents[1]) in limiter["text"]


def test_its_notebooks_are_found(python: Path) -> None:
    code = (
        "from hami_hub.cli.demo.folder import notebooks_folder; print(*(p.name for p in notebooks_folder().iterdir()))"
    )
    names = run(python, "-c", code).stdout.split()
    assert {path.name for path in (ROOT / "notebooks").glob("*.ipynb")} <= set(names)


def test_the_page_and_the_languages_work_from_it(python: Path) -> None:
    code = """
import json
from pathlib import Path
from traitlets.config import Config
import hami_hub
from hami_hub import service
from hami_hub.core.language import say, speaking
from hami_hub.languages import languages, translator
from hami_hub.service.base import templates_in

c = Config()
hami_hub.setup(c)
[templates] = c.JupyterHub.template_paths
pages = templates_in(str(Path(service.__file__).with_name("templates")))
with speaking(translator("ja")):
    japanese = str(say("Profile"))
print(json.dumps({
    "languages": languages(),
    "japanese": japanese,
    "pages": [pages.get_template(name).name for name in sorted(pages.list_templates())],
    "hub's": sorted(path.name for path in Path(templates).iterdir()),
}))
"""
    done = run(python, "-c", code)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    package = ROOT / "hami_hub"
    assert set(found["languages"]) == {"en", *(path.name for path in (package / "locale").iterdir())}
    assert found["japanese"] != "Profile"
    assert found["pages"] == sorted(path.name for path in (package / "service" / "templates").iterdir())
    assert set(found["hub's"]) == {path.name for path in (package / "templates").iterdir()}
