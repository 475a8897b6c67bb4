"""The doctor's judgement of machines of every kind: what is wrong is said with a remedy, what is well is not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from hami_hub.cards import NoCardsError
from hami_hub.cli import doctor, main
from hami_hub.cli.doctor import checks, hub_checks
from hami_hub.cli.doctor.findings import Finding, Verdict, good, left_out, render, to_json, wrong
from hami_hub.cli.doctor.hub_config import ConfigError, read_hub_config
from hami_hub.cli.doctor.machine import Machine
from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.slices import CardShare, Placement
from hami_hub.core.units import Mib, Percent
from hami_hub.native import NativeMissingError
from hami_hub.slicepage import create_slice

T4 = Card(uuid=CardUuid("GPU-a"), index=0, model="Tesla T4", vram=Mib(15360))


class FakeMachine(Machine):
    """A healthy machine with one T4; a keyword replaces one answer, an exception is raised."""

    def __init__(self, **answers: object) -> None:
        self.answers: dict[str, object] = {
            "driver": "580.159.04, CUDA 13.0",
            "simulated": False,
            "cards": (T4,),
            "limiter": Path("/lib/libvgpu.so"),
            "preload": "",
            "total_in_slice": (Mib(256), ""),
            "slice_directory": None,
            "slice_is_mounted": False,
            "limiter_is_loaded": True,
            "total_here": Mib(4000),
            "writable": True,
            "why_not_port": None,
            "next_free_port": 8001,
            "hub_on": None,
            "package": "1.0",
            "python": "3.11.7 in /usr/bin/python3",
            "systemd_runs": False,
            **answers,
        }

    def __getattribute__(self, name: str) -> object:
        answers = object.__getattribute__(self, "__dict__").get("answers", {})
        if name not in answers:
            return object.__getattribute__(self, name)
        answer = answers[name]

        def ask(*arguments: object) -> object:
            if isinstance(answer, Exception):
                raise answer
            return answer(*arguments) if callable(answer) else answer

        return ask


def verdicts(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(finding.check, finding.verdict.value) for finding in findings]


def only_wrong(findings: Iterable[Finding]) -> Finding:
    found = [finding for finding in findings if finding.verdict is Verdict.WRONG]
    assert len(found) == 1, found
    assert found[0].remedy
    return found[0]


def test_a_healthy_machine_has_nothing_wrong() -> None:
    machine = FakeMachine()
    assert verdicts(checks.check_cards(machine)) == [("driver", "good"), ("card", "good")]
    assert verdicts(checks.check_limiter(machine)) == [("limiter", "good"), ("limit", "good")]
    assert verdicts(checks.check_slice(machine)) == [("slice", "left-out")]
    assert verdicts(checks.check_port(machine, 8000)) == [("port", "good")]
    assert {verdict for _, verdict in verdicts(checks.check_python(machine))} == {"good"}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        pytest.param({"driver": NoCardsError("No driver.", driver_missing=True)}, "No driver.", id="no-driver"),
        pytest.param({"cards": ()}, "no card", id="no-card"),
        pytest.param(
            {"cards": (Card(uuid=CardUuid("GPU-b"), index=1, model="A10", vram=Mib(0), healthy=False),)},
            "1: A10, 0 GiB, GPU-b doesn't answer.",
            id="sick-card",
        ),
    ],
)
def test_what_is_wrong_with_cards(answers: dict[str, object], words: str) -> None:
    assert words in only_wrong(checks.check_cards(FakeMachine(**answers))).text


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        pytest.param({"limiter": NativeMissingError("libvgpu.so is not there.")}, "is not there", id="missing"),
        pytest.param({"preload": "ld.so: wrong ELF\nx"}, "can't be preloaded: ld.so: wrong ELF", id="wrong-machine"),
        pytest.param({"total_in_slice": (Mib(15360), "")}, "sees 15 GiB: slices don't hold", id="holds-nothing"),
        pytest.param({"total_in_slice": (None, "x\nversion 9")}, "fails: version 9", id="page-of-another-version"),
    ],
)
def test_what_is_wrong_with_the_limiter(answers: dict[str, object], words: str) -> None:
    assert words in only_wrong(checks.check_limiter(FakeMachine(**answers))).text


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param({"cards": ()}, id="no-card"),
        pytest.param({"cards": NoCardsError("x", driver_missing=True)}, id="no-driver"),
    ],
)
def test_no_slice_is_tried_where_none_can_be(answers: dict[str, object]) -> None:
    assert verdicts(checks.check_limiter(FakeMachine(**answers))) == [("limiter", "good"), ("limit", "left-out")]


def test_no_slice_is_tried_from_inside_a_slice() -> None:
    machine = FakeMachine(slice_directory=Path("/run/hami/slice"))
    assert verdicts(checks.check_limiter(machine)) == [("limiter", "good")]


@pytest.fixture
def slice_directory(tmp_path: Path) -> Path:
    share = CardShare(uuid=CardUuid("GPU-a"), vram=Mib(4000), cores=Percent(25))
    create_slice(tmp_path / "slice", name="alice/", placement=Placement((share,)))
    return tmp_path / "slice"


def test_in_a_slice_its_limits_are_told(slice_directory: Path) -> None:
    findings = list(checks.check_slice(FakeMachine(slice_directory=slice_directory)))
    assert findings == [
        good("slice", "alice/: 4000 MiB · 25 % of GPU-a, 0 MiB in use"),
        good("preload", "loaded in this process"),
        good("limit", "NVML shows 4000 MiB of GPU-a"),
    ]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        pytest.param({"limiter_is_loaded": False}, "is not loaded in this process", id="no-preload"),
        pytest.param({"total_here": None}, "NVML doesn't show GPU-a.", id="hidden-card"),
        pytest.param({"total_here": Mib(15360)}, "NVML shows 15 GiB of GPU-a, the slice has 4000 MiB", id="whole-card"),
    ],
)
def test_a_slice_that_does_not_hold(slice_directory: Path, answers: dict[str, object], words: str) -> None:
    assert words in only_wrong(checks.check_slice(FakeMachine(slice_directory=slice_directory, **answers))).text


def test_a_damaged_page(slice_directory: Path) -> None:
    (slice_directory / "limits").unlink()
    (slice_directory / "limits").write_bytes(b"rubbish")
    assert "is damaged" in only_wrong(checks.check_slice(FakeMachine(slice_directory=slice_directory))).text


def test_a_port_in_use() -> None:
    finding = only_wrong(checks.check_port(FakeMachine(why_not_port="is in use"), 8000))
    assert (finding.text, finding.remedy) == ("8000 is in use.", "Use another, 8001 is free.")
    running = FakeMachine(why_not_port="is in use", hub_on="6.1.1")
    assert verdicts(checks.check_port(running, 8000)) == [("port", "good")]


def test_missing_packages() -> None:
    findings = list(checks.check_python(FakeMachine(package=None)))
    assert only_wrong(findings).text.startswith("jupyterhub is not installed")
    assert "pip install 'hami-hub[systemd]'" in render(findings)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("c.X.y = (", "has an error in line 1", id="syntax"),
        pytest.param("1 / 0", "fails: ZeroDivisionError: division by zero", id="fails"),
        pytest.param(None, "There is no file", id="not-there"),
    ],
)
def test_a_configuration_that_cannot_be_read(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "jupyterhub_config.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=words):
        read_hub_config(path)
    assert words in only_wrong(hub_checks.load(path)[1]).text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("", "No spawner is set", id="no-spawner"),
        pytest.param("c.JupyterHub.spawner_class = 'nonsense'", "There is no spawner nonsense.", id="unknown-spawner"),
        pytest.param("c.JupyterHub.spawner_class = 'simple'", "simple gives servers no slices.", id="another-spawner"),
        pytest.param(
            "c.JupyterHub.spawner_class = 'hami-simple'\nc.GpuSlices.profiles = [{'name': 'A B'}]",
            "Profile 1 has the name 'A B'.",
            id="wrong-profile",
        ),
    ],
)
def test_what_is_wrong_with_a_configuration(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "jupyterhub_config.py"
    path.write_text(content)
    assert words in only_wrong(hub_checks.load(path)[1]).text


def test_a_right_configuration(tmp_path: Path) -> None:
    path = tmp_path / "jupyterhub_config.py"
    path.write_text(
        "print('hello')\nc.JupyterHub.spawner_class = 'hami-local'\n"
        "c.JupyterHub.bind_url = 'http://127.0.0.1:9000'\nc.GpuSlices.slice_root = '/dev/shm/x'\n"
    )
    config, findings = hub_checks.load(path)
    assert verdicts(findings) == [("hub config", "good"), ("spawner", "good"), ("profiles", "good")]
    assert config is not None
    assert (config.port, config.slice_root) == (9000, Path("/dev/shm/x"))
    assert verdicts(hub_checks.check_slice_root(FakeMachine(), config)) == [("slices", "good")]


def test_a_slice_root_on_a_disk(tmp_path: Path) -> None:
    path = tmp_path / "jupyterhub_config.py"
    path.write_text("c.GpuSlices.slice_root = '/proc/slices'\n")
    config, _ = hub_checks.load(path)
    assert "slices need a tmpfs" in only_wrong(hub_checks.check_slice_root(FakeMachine(), config)).text


def test_findings_are_printed_with_their_remedies() -> None:
    findings = [
        good("port", "8000 is free"),
        wrong("driver", "There is none.", "Install one."),
        left_out("slice", "None."),
    ]
    assert render(findings).splitlines() == [
        "✓ port        8000 is free",
        "✗ driver      There is none.",
        "              Install one.",
        "– slice       None.",
    ]
    assert json.loads(to_json(findings))[1] == {
        "check": "driver",
        "verdict": "wrong",
        "text": "There is none.",
        "remedy": "Install one.",
    }


@pytest.mark.parametrize(("answers", "code"), [({}, 0), ({"cards": ()}, 1)])
def test_the_exit_code_says_whether_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, object], code: int
) -> None:
    monkeypatch.setattr(doctor, "Machine", lambda: FakeMachine(**answers))
    result = CliRunner().invoke(main, ["doctor", "--json"])
    assert result.exit_code == code
    assert any(finding["check"] == "slices" for finding in json.loads(result.stdout))
