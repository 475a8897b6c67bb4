"""The generated files are what the .proto files beside them make."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROTOS = ROOT / "cluster" / "deviceplugin" / "protos"


def test_the_generated_files_are_the_protos(tmp_path: Path) -> None:
    tools = pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed.")
    assert tools
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    names = [str(path.relative_to(ROOT)) for path in sorted(PROTOS.glob("*.proto"))]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", ".", *outputs, *names], cwd=ROOT, check=True)
    made = {path.name: path.read_text() for path in tmp_path.rglob("*_pb2*")}
    assert made
    assert made == {path.name: path.read_text() for path in PROTOS.glob("*_pb2*") if path.suffix in (".py", ".pyi")}
