"""A real systemd for tests, as PID 1 of its own namespaces, on machines whose own PID 1 may be anything.

It is for tests of the systemd spawner, which calls `systemd-run` and `systemctl`: inside, both are the real ones.
It is no sandbox and no image. The files are the machine's own, the project's environment included, and so are
the network (a hub inside is reached on 127.0.0.1) and /tmp. Private to it, and gone with it, are /run, /proc, the
cgroups, the host name, and every change under /etc and /var: accounts made inside by `useradd` are too, with homes
under /var. Nothing of the distribution's units is started.

It needs root and Linux with cgroup2 and overlayfs: `why_not()` says in one sentence what is missing.
"""

from __future__ import annotations

import functools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

BOOT_TIMEOUT = 60  # seconds; it takes well under one
STOP_TIMEOUT = 60  # seconds; units get 5 of them
TOOLS = ("unshare", "nsenter", "setpriv", "mount", "umount", "systemd-run", "systemctl")
PROGRAMS = (Path("/usr/lib/systemd/systemd"), Path("/lib/systemd/systemd"))

# Run by `unshare --mount`: a cgroup of its own first, so that the cgroup namespace begins there.
OUTER = """\
set -eu
umask 022
dir=$1 cgroup=$2 inner=$3; shift 3
mount -t tmpfs -o mode=755 tmpfs "$dir"
mkdir "$dir/cgroup2"
mount -t cgroup2 cgroup2 "$dir/cgroup2"
mkdir "$dir/cgroup2/$cgroup"
echo $$ > "$dir/cgroup2/$cgroup/cgroup.procs"
exec unshare --fork --kill-child --pid --mount --cgroup --uts --ipc sh -c "$inner" sh "$dir" "$@"
"""

# Run as PID 1 of the new namespaces: puts the private parts over the machine's files, prints its pid as the
# machine counts (so a line of output means that all is made), and becomes the program.
INNER = """\
set -eu
read -r pid rest < /proc/self/stat  # while /proc is still the machine's own
dir=$1; shift
over() {
    n=$((${n:-0} + 1))
    mkdir -p "$dir/work$n"; mkdir -m "$2" "$dir/upper$n"
    for file in hosts resolv.conf; do  # often mounts of their own, which an overlay does not see
        [ "$1" != /etc ] || [ ! -e "/etc/$file" ] || cat "/etc/$file" > "$dir/upper$n/$file"
    done
    mount -t overlay -o "lowerdir=$1,upperdir=$dir/upper$n,workdir=$dir/work$n" overlay "$1"
}
mount -t proc proc /proc
over /etc 755
over /var 755
while [ "$1" != -- ]; do over "$1" 711; shift; done; shift
[ -s /etc/machine-id ] || od -An -tx1 -N16 /dev/urandom | tr -d ' ' > /etc/machine-id
rm -f /etc/ld.so.preload
umount -l /sys/fs/cgroup 2> /dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for device in console kmsg; do
    [ ! -e /dev/$device ] || mount --bind /dev/null /dev/$device
done
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/units/service.d /run/log /run/generators /run/systemd/system.conf.d
for target in default basic sysinit shutdown; do
    printf '[Unit]\\nDefaultDependencies=no\\n' > /run/units/$target.target
done
printf '[Service]\\nStandardOutput=append:/run/log/%%n\\nStandardError=inherit\\n' > /run/units/service.d/log.conf
printf '[Manager]\\nDefaultTimeoutStopSec=5s\\n' > /run/systemd/system.conf.d/fast.conf
echo "$pid"
exec "$@"
"""


class SystemdContainer:
    """A running systemd: `with SystemdContainer() as systemd: systemd.run("systemctl", "is-active", "x")`.

    Use it only where `why_not()` is None. start() raises RuntimeError when it does not come up.
    """

    def __init__(self) -> None:
        self.pid = 0  # of its PID 1, as the machine counts
        self._process: subprocess.Popen[str] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._cgroup = f"hami-systemd-{os.getpid()}-{id(self):x}"

    def start(self) -> SystemdContainer:
        """Boot, and return when the default target is reached."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            # Abstract, because /run and the mounts differ on the two sides; the network is shared.
            ready.bind(f"\0{self._cgroup}")
            ready.settimeout(BOOT_TIMEOUT)
            try:
                process = self._spawn(_systemd(f"@{self._cgroup}"))
                if not self.pid:
                    raise RuntimeError(f"systemd could not be started: {process.communicate()[1].strip()}")
                while b"READY=1" not in ready.recv(4096):
                    pass
            except BaseException as error:
                self.stop()
                if isinstance(error, TimeoutError):
                    raise RuntimeError(f"systemd was not ready after {BOOT_TIMEOUT} s.") from error
                raise
        return self

    def run(self, *command: str | os.PathLike[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command inside, as root and in no unit; options are those of subprocess.run."""
        settings: dict[str, Any] = {"text": True, "capture_output": True, "timeout": 60, **options}
        return subprocess.run(self.inside(*command), **settings)

    def inside(self, *command: str | os.PathLike[str]) -> list[str]:
        """The command line that runs `command` inside: for subprocess.Popen, say of a hub."""
        if not self.pid:
            raise RuntimeError("This SystemdContainer is not running: call start() first.")
        namespaces = ["--mount", "--uts", "--ipc", "--pid", "--cgroup"]
        return ["nsenter", f"--target={self.pid}", *namespaces, "--", *(os.fspath(each) for each in command)]

    def log(self, unit: str) -> str:
        """What the service (full name, `x.service`) has written so far to stdout and stderr."""
        return self.run("cat", f"/run/log/{unit}", check=True).stdout

    def stop(self) -> None:
        """Stop all units, then everything else inside, and leave nothing behind. Harmless when not running."""
        try:
            if self.pid:
                self.run("systemctl", "start", "shutdown.target", timeout=STOP_TIMEOUT)
        finally:
            self._end()

    def __enter__(self) -> SystemdContainer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _spawn(self, program: Sequence[str]) -> subprocess.Popen[str]:
        self._scratch = tempfile.TemporaryDirectory(prefix="hami-systemd-")
        # A killed test run must not leave a systemd behind: it dies with the thread that started it.
        command = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "sh", "-c", OUTER, "sh"]
        command += [self._scratch.name, self._cgroup, INNER, *_closed_folders(), "--", *program]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, cwd="/"
        )
        assert self._process.stdout is not None
        self.pid = int(self._process.stdout.readline() or 0)
        return self._process

    def _end(self) -> None:
        """Kill what is left and remove the cgroup and the scratch folder."""
        if self._process is not None:
            # Not `systemctl exit`: its SIGSTOP to all makes nsenter stop for good, and PID 1 wait for that.
            if self.pid and self._process.poll() is None:
                os.kill(self.pid, signal.SIGKILL)
            else:
                self._process.kill()
            self._process.communicate(timeout=STOP_TIMEOUT)
        if self._scratch is not None:
            _remove_cgroup(self._scratch.name, self._cgroup)
            self._scratch.cleanup()
        self.pid, self._process, self._scratch = 0, None, None


@functools.cache
def why_not() -> str | None:
    """One sentence on why no systemd can be started here, or None when it can."""
    if not sys.platform.startswith("linux"):
        return f"systemd runs on Linux only, and this is {sys.platform}."
    if os.geteuid() != 0:
        return f"Only root may start a systemd, and this is uid {os.geteuid()}: run the tests as root for this part."
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing or not any(program.exists() for program in PROGRAMS):
        return f"{missing[0] if missing else PROGRAMS[0]} is not installed: install systemd and util-linux."
    return _dry_run()


def _dry_run() -> str | None:
    """Make the namespaces and mounts, all but systemd itself: a container often forbids one of them."""
    container = SystemdContainer()
    try:
        process = container._spawn(["true"])
        lines = process.communicate(timeout=BOOT_TIMEOUT)[1].splitlines()
        if process.returncode == 0:
            return None
        return f"This machine forbids what a systemd needs ({lines[0] if lines else 'no reason given'})."
    except subprocess.TimeoutExpired:
        return f"This machine did not make the mounts that a systemd needs within {BOOT_TIMEOUT} s."
    finally:
        container._end()


def _systemd(notify: str) -> list[str]:
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "container": "hami-test",
        "NOTIFY_SOCKET": notify,
        "SYSTEMD_UNIT_PATH": "/run/systemd/transient:/run/units",
        "SYSTEMD_GENERATOR_PATH": "/run/generators",
        "SYSTEMD_ENVIRONMENT_GENERATOR_PATH": "/run/generators",
    }
    program = next(path for path in PROGRAMS if path.exists())
    variables = [f"{name}={value}" for name, value in environment.items()]
    return ["env", "-i", *variables, str(program), "--system", "--log-target=null", "--show-status=no"]


def _closed_folders() -> list[str]:
    """Folders above this interpreter that only root may pass (/root, say); inside, everybody may."""
    homes = {Path(path).resolve() for path in (sys.prefix, sys.base_prefix)}
    above = {folder for home in homes for folder in (home, *home.parents)}
    return sorted(str(folder) for folder in above if not folder.stat().st_mode & 0o001)


def cgroups(name: str) -> list[Path]:
    """The cgroups of that name, wherever they are; others may come and go meanwhile."""
    return [Path(group) for group, _, _ in os.walk("/sys/fs/cgroup") if Path(group).name == name]


def _remove_cgroup(scratch: str, cgroup: str) -> None:
    """Remove the cgroup, seen through a mount that ends with this command; its processes are gone already."""
    remove = f'mount -t cgroup2 cgroup2 "$1" && [ ! -d "$1/{cgroup}" ] || find "$1/{cgroup}" -depth -type d -delete'
    subprocess.run(["unshare", "--mount", "sh", "-c", remove, "sh", scratch], capture_output=True, check=False)
