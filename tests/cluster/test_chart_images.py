"""The release's images: made by the Dockerfile, with little in them, and silent about the network they were made in."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from images.build import CA_INSIDE, pip_settings
from tests.cluster import release_images as release

Archive = tuple[dict[str, Any], set[str]]


@pytest.fixture(scope="module")
def archives(release_images: list[Path]) -> dict[str, Archive]:
    """target -> the image's configuration, and the names of all its files."""
    return {path.stem: read(path) for path in release_images}


def read(path: Path) -> Archive:
    with tarfile.open(path) as archive:

        def part(name: str) -> bytes:
            file = archive.extractfile(name)
            assert file is not None
            return file.read()

        (manifest,) = json.loads(part("manifest.json"))
        names: set[str] = set()
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=io.BytesIO(part(layer))) as files:
                names |= set(files.getnames())
        return json.loads(part(manifest["Config"])), names


@pytest.mark.parametrize(
    ("target", "user", "module"),
    [("scheduler", "65532:65532", "cluster.scheduler"), ("device-plugin", "", "cluster.deviceplugin")],
)
def test_what_runs_in_it_and_as_whom(archives: dict[str, Archive], target: str, user: str, module: str) -> None:
    config = archives[target][0]["config"]
    assert config.get("User", "") == user
    assert config["Entrypoint"] == ["python", "-m", module]


@pytest.mark.parametrize("target", ["scheduler", "device-plugin"])
def test_it_has_the_code_and_the_limiter_and_no_way_to_install_more(archives: dict[str, Archive], target: str) -> None:
    _, names = archives[target]
    native = {f"app/hami_hub/_native/{name}" for name in ("libvgpu.so", "sim/libcuda.so.1", "sim/libnvidia-ml.so.1")}
    assert native | {"app/cluster/settings.py", "app/hami_hub/core/codec.py"} <= names
    assert not [name for name in names if name.endswith(("/bin/pip", "/bin/gcc")) or "/jupyterhub/" in name]


@pytest.mark.parametrize("target", ["scheduler", "device-plugin"])
def test_it_remembers_nothing_of_the_network_it_was_made_in(archives: dict[str, Archive], target: str) -> None:
    config, names = archives[target]
    assert not {"etc/pip.conf", CA_INSIDE.lstrip("/")} & names
    assert "index-url" not in json.dumps(config).lower().replace("_", "-")


def test_pip_is_told_what_the_environment_says_of_the_network(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.touch()
    assert pip_settings({}) == ("[global]\n", None)
    assert pip_settings({"PIP_INDEX_URL": "https://a/simple", "UV_DEFAULT_INDEX": "https://b"}) == (
        "[global]\nindex-url = https://a/simple\n",
        None,
    )
    assert pip_settings({"UV_DEFAULT_INDEX": "https://b", "SSL_CERT_FILE": str(ca)}) == (
        f"[global]\nindex-url = https://b\ncert = {CA_INSIDE}\n",
        ca,
    )
    assert pip_settings({"PIP_CERT": str(tmp_path / "missing")}) == ("[global]\n", None)


def test_where_archives_are_named_nothing_is_built_and_nothing_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(release.GIVEN, str(tmp_path / "given"))
    neighbours = {tmp_path / str(number) for number in range(2 * release.KEPT)}
    for folder in neighbours:
        folder.mkdir()
    with pytest.raises(FileNotFoundError, match="given"):
        release.ensure()
    assert set(tmp_path.iterdir()) == neighbours
