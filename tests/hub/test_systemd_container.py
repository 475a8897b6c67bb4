"""What the systemd spawner may rely on, seen on a real systemd: binds, read-only limits, the preload, users.

How the spawner uses these facts is tested beside it; here nothing of the hub runs.
"""

from __future__ import annotations

import itertools
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import systemd_container
from systemd_container import SystemdContainer, why_not

pytestmark = pytest.mark.systemd

PRELOAD = "/etc/ld.so.preload"
NAMESPACE_FAILED = "226"  # EXIT_NAMESPACE of systemd.exec(5): a mount of the unit could not be made
NO_ADMIN = "CapabilityBoundingSet=~CAP_SYS_ADMIN"
# Every program started under this preload says so on stderr, and no library has to be built.
LIBRARY = "/run/hami/no-such-library.so"

unit_names = (f"test-{number}.service" for number in itertools.count())


@pytest.fixture(scope="module")
def systemd() -> Iterator[SystemdContainer]:
    if reason := why_not():
        pytest.skip(reason)
    with SystemdContainer() as container:
        yield container


@pytest.fixture
def slice_dir(tmp_path: Path) -> Path:
    """A slice's directory as the hub makes it: limits for reading, usage for the tenant."""
    path = tmp_path / "slice"
    (path / "usage").mkdir(parents=True)
    (path / "usage").chmod(0o777)  # a dynamic user's uid is not known before the start
    (path / "limits").write_text("4000 MiB\n")
    (path / "preload").write_text(f"{LIBRARY}\n")
    return path


def slice_binds(path: Path) -> list[str]:
    return [
        f"BindReadOnlyPaths={path}:/run/hami/slice {path}/preload:{PRELOAD}",
        f"BindPaths={path}/usage:/run/hami/slice/usage",
    ]


def run_unit(systemd: SystemdContainer, script: str, *properties: str) -> str:
    """Run a shell script as a transient service to its end and return what it wrote; it must succeed."""
    unit = next(unit_names)
    options = [f"--property={each}" for each in properties]
    # oneshot: systemd-run returns when the script has ended, which needs no message bus.
    command = ["systemd-run", f"--unit={unit}", "--collect", "--service-type=oneshot", *options, "sh", "-c", script]
    result = systemd.run(*command)
    assert result.returncode == 0, result.stderr + systemd.run("sh", "-c", f"cat /run/log/{unit}").stdout
    return systemd.log(unit)


def test_a_real_systemd_runs_and_stops_services(systemd: SystemdContainer) -> None:
    assert systemd.run("cat", "/proc/1/comm").stdout == "systemd\n"
    assert systemd.run("systemctl", "is-system-running").stdout == "running\n"
    unit = next(unit_names)
    systemd.run("systemd-run", f"--unit={unit}", "--uid=nobody", "sleep", "1000", check=True)
    assert systemd.run("systemctl", "is-active", unit).returncode == 0
    systemd.run("systemctl", "stop", unit, check=True)
    assert systemd.run("systemctl", "is-active", unit).stdout == "inactive\n"


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param([NO_ADMIN], id="root"),
        pytest.param(["User=nobody"], id="user"),
        pytest.param(["DynamicUser=yes", "StateDirectory=alice"], id="dynamic user"),
    ],
)
def test_limits_can_be_read_and_only_usage_written(
    systemd: SystemdContainer, slice_dir: Path, properties: list[str]
) -> None:
    script = """
        cat /run/hami/slice/limits
        for path in limits new usage/page; do
            touch /run/hami/slice/$path && echo wrote $path
        done
        mount -o remount,bind,rw /run/hami/slice && echo remounted
        umount /run/hami/slice && echo unmounted
        true
    """
    output = run_unit(systemd, script, *slice_binds(slice_dir), *properties).splitlines()
    said = [line for line in output if line.split()[0] in ("4000", "wrote", "remounted", "unmounted")]
    assert said == ["4000 MiB", "wrote usage/page"]
    assert (slice_dir / "usage" / "page").exists()
    assert sorted(path.name for path in slice_dir.iterdir()) == ["limits", "preload", "usage"]


@pytest.mark.parametrize("shell", ["/bin/true", "env -i /bin/true", "env -i /bin/sh -c /bin/true"])
def test_the_preload_is_met_whatever_the_environment(systemd: SystemdContainer, slice_dir: Path, shell: str) -> None:
    script = f"echo before >&2; {shell}"
    output = run_unit(systemd, script, "User=nobody", *slice_binds(slice_dir)).partition("before")[2]
    assert f"object '{LIBRARY}' from {PRELOAD} cannot be preloaded" in output


@pytest.mark.parametrize("before", [None, "# the machine's own\n"], ids=["absent", "present"])
def test_the_root_keeps_its_own_preload_or_gets_an_empty_one(
    systemd: SystemdContainer, slice_dir: Path, before: str | None
) -> None:
    systemd.run("rm", "-f", PRELOAD, check=True)
    if before is not None:
        systemd.run("tee", PRELOAD, input=before, check=True)
    assert LIBRARY in run_unit(systemd, f"cat {PRELOAD}", *slice_binds(slice_dir))
    assert systemd.run("cat", PRELOAD, check=True).stdout == (before or "")
    systemd.run("rm", PRELOAD, check=True)


def test_the_mount_point_below_run_can_stay_out_of_the_root(systemd: SystemdContainer, slice_dir: Path) -> None:
    systemd.run("rm", "-rf", "/run/hami", check=True)
    run_unit(systemd, "cat /run/hami/slice/limits", "TemporaryFileSystem=/run/hami:ro", *slice_binds(slice_dir))
    assert systemd.run("ls", "/run/hami", check=True).stdout == ""
    run_unit(systemd, "cat /run/hami/slice/limits", *slice_binds(slice_dir))
    assert systemd.run("ls", "/run/hami", check=True).stdout == "slice\n"


def test_a_user_namespace_could_hide_the_preload_and_is_refused(systemd: SystemdContainer, slice_dir: Path) -> None:
    script = f"unshare -Urm mount --bind /dev/null {PRELOAD} && echo hidden; true"
    properties = ["User=nobody", "NoNewPrivileges=yes", *slice_binds(slice_dir)]
    if "hidden" not in run_unit(systemd, script, *properties):
        pytest.skip("This kernel lets no plain user make a user namespace, so there is nothing to refuse.")
    assert "hidden" not in run_unit(systemd, script, "RestrictNamespaces=~user", *properties)


def test_blanks_and_colons_in_a_path_take_a_backslash_and_percent_takes_nothing(
    systemd: SystemdContainer, tmp_path: Path
) -> None:
    odd = tmp_path / "a b:c%d"
    odd.mkdir()
    (odd / "limits").write_text("odd\n")
    source = str(odd).replace(" ", r"\ ").replace(":", r"\:")
    assert run_unit(systemd, "cat /run/odd/limits", f"BindReadOnlyPaths={source}:/run/odd") == "odd\n"


def test_a_missing_source_fails_the_unit_but_not_systemd_run(systemd: SystemdContainer, tmp_path: Path) -> None:
    unit = next(unit_names)
    missing = f"--property=BindReadOnlyPaths={tmp_path}/missing:/run/hami/slice"
    assert systemd.run("systemd-run", f"--unit={unit}", missing, "true").returncode == 0
    systemd.run("sh", "-c", f"while systemctl is-active --quiet {unit}; do sleep 0.02; done", check=True)
    assert systemd.run("systemctl", "show", unit, "--property=ExecMainStatus", "--value").stdout.strip() == (
        NAMESPACE_FAILED
    )


def test_loopback_and_interpreter_are_shared_with_the_machine(systemd: SystemdContainer, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        port = server.getsockname()[1]
        program = f"import os, socket; socket.create_connection(('127.0.0.1', {port})).send(b'%d' % os.getuid())"
        run_unit(systemd, f'{sys.executable} -c "{program}"', "User=nobody")
        with server.accept()[0] as connection:
            assert connection.recv(100) == b"65534"


def test_systemdspawners_own_calls_work(systemd: SystemdContainer, slice_dir: Path) -> None:
    pytest.importorskip("systemdspawner")
    program = """
import asyncio, sys
from systemdspawner import systemd
async def main(read_only, writable):
    await systemd.start_transient_service(
        "jupyter-alice-singleuser", ["sh"], ["-c", "cat /run/hami/slice/limits; echo $WHO; exec sleep 1000"], "/",
        environment_variables={"WHO": "alice", "PATH": "/usr/bin:/bin"}, uid=65534, gid=65534,
        properties={"BindReadOnlyPaths": read_only.split(), "BindPaths": writable},
    )
    up = await systemd.service_running("jupyter-alice-singleuser")
    await systemd.stop_service("jupyter-alice-singleuser")
    print(up, await systemd.service_running("jupyter-alice-singleuser"))
asyncio.run(main(*sys.argv[1:]))
"""
    values = [each.partition("=")[2] for each in slice_binds(slice_dir)]
    result = systemd.run(sys.executable, "-c", program, *values)
    assert result.stdout == "True False\n", result.stderr


def test_nothing_of_the_machine_changes(systemd: SystemdContainer) -> None:
    before = [path.exists() for path in (Path(PRELOAD), Path("/etc/hami-test"), Path("/run/hami-test"))]
    systemd.run("touch", PRELOAD, "/etc/hami-test", "/var/lib/hami-test", "/run/hami-test", check=True)
    assert [path.exists() for path in (Path(PRELOAD), Path("/etc/hami-test"), Path("/run/hami-test"))] == before
    assert not Path("/var/lib/hami-test").exists()
    systemd.run("rm", PRELOAD, check=True)


def test_stop_ends_units_in_order_then_every_process_and_leaves_no_folder(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    container = SystemdContainer().start()
    assert container._scratch is not None
    scratch = Path(container._scratch.name)
    last_act = f"--property=ExecStopPost=touch {tmp_path}/stopped"
    container.run("systemd-run", last_act, "sleep", "1000", check=True)
    command = container.inside("sh", "-c", "echo inside; exec sleep 1000")
    with subprocess.Popen(command, stdout=subprocess.PIPE) as outside_any_unit:
        assert outside_any_unit.stdout is not None
        assert outside_any_unit.stdout.readline() == b"inside\n"
        container.stop()
        assert outside_any_unit.wait(60) == 128 + signal.SIGKILL or outside_any_unit.returncode < 0
    assert (tmp_path / "stopped").exists()
    assert not scratch.exists()
    assert not systemd_container.cgroups(container._cgroup)
    container.stop()  # again: harmless


def test_a_killed_test_run_takes_its_systemd_with_it(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    program = """
import time, systemd_container
container = systemd_container.SystemdContainer().start()
print(container.pid, container._cgroup, flush=True)
time.sleep(600)
"""
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=here) as run:
        assert run.stdout is not None
        pid, cgroup = run.stdout.readline().split()
        descriptor = os.pidfd_open(int(pid))
        run.kill()
    assert select.select([descriptor], [], [], 60)[0], "systemd outlived the test run"
    os.close(descriptor)
    systemd_container._remove_cgroup(str(tmp_path), cgroup)  # all that such an end leaves, but for an empty folder


def test_why_not_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = why_not.__wrapped__
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "Only root may start a systemd, and this is uid 1000" in str(judge())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "systemd-run" else tool)
    assert str(judge()) == "systemd-run is not installed: install systemd and util-linux."


def test_why_not_tells_a_container_that_may_not_mount() -> None:
    if reason := why_not():
        pytest.skip(reason)
    drop = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    here = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    program = "import systemd_container as s; print(s.why_not())"
    told = subprocess.run([*drop, sys.executable, "-c", program], capture_output=True, text=True, env=here)
    assert told.stdout == (
        "This machine forbids what a systemd needs (unshare: unshare failed: Operation not permitted).\n"
    ), told
