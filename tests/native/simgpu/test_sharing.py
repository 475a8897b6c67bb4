"""Processes share a card for real: what one takes is missing for the others, and comes back when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .conftest import Machine

CONTEXT = 104
TOTAL = 15360


def test_two_processes_see_each_other(machine: Machine) -> None:
    a, b = machine.guest(), machine.guest()
    a("init()")
    b("init()")
    assert a("uuid()") == b("uuid()")
    a("alloc(1000)")
    assert b("taken()") == 2 * CONTEXT + 1000
    assert b("processes()") == sorted([[a.pid, CONTEXT + 1000], [b.pid, CONTEXT]])


def test_a_card_full_by_another_process_refuses(machine: Machine) -> None:
    a, b = machine.guest(), machine.guest()
    a("init()")
    a("p = alloc(15000)")
    b("init()")
    assert b("refused(alloc, 200)") == 2
    a("free(p)")
    assert b("refused(alloc, 200)") == 0


def test_a_killed_process_gives_all_back(machine: Machine) -> None:
    a, b = machine.guest(), machine.guest()
    a("init()")
    a("alloc(10000)")
    b("init()")
    assert b("refused(alloc, 6000)") == 2
    a.kill()
    assert b("processes()") == [[b.pid, CONTEXT]]
    assert b("refused(alloc, 6000)") == 0
    assert b("taken()") == CONTEXT + 6000


def test_an_allocation_alone_notices_that_another_died(machine: Machine) -> None:
    """Nobody asked for the figures in between."""
    a, b = machine.guest(), machine.guest()
    a("init()")
    a("alloc(15000)")
    b("init()")
    a.kill()
    assert b("refused(alloc, 15000)") == 0


def test_what_a_dead_process_held_is_in_no_peak(machine: Machine) -> None:
    """Also if nobody has looked at the card between its end and the next allocation."""
    a, b = machine.guest(), machine.guest()
    b("init()")
    a("init(); alloc(1000)")
    a.kill()
    b("alloc(1000)")
    assert b("cuda.hamisim_peak(0) // MIB") == 2 * CONTEXT + 1000


def test_a_zombie_is_dead(machine: Machine) -> None:
    a, b = machine.guest(), machine.guest()
    a("init()")
    b("init()")
    a("alloc(1000)")
    a.process.kill()
    os.waitid(os.P_PID, a.pid, os.WEXITED | os.WNOWAIT)  # it's a zombie until it's reaped
    assert b("taken()") == CONTEXT


def test_a_zombie_leader_with_a_living_thread_is_alive(machine: Machine) -> None:
    a, b = machine.guest(), machine.guest()
    b("init()")
    a("init(); alloc(1000)")
    a("import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()")
    assert a.process.stdin
    a.process.stdin.write('"ctypes.CDLL(None).syscall(60, 0)"\n')  # exit(2) of the main thread only
    a.process.stdin.flush()
    while Path(f"/proc/{a.pid}/stat").read_text().split(") ")[1][0] != "Z":
        time.sleep(0.001)
    assert b("processes()") == sorted([[a.pid, CONTEXT + 1000], [b.pid, CONTEXT]])
    a.kill()
    assert b("taken()") == CONTEXT


def test_a_process_that_starts_another_program_lost_its_memory(machine: Machine) -> None:
    a, b = machine.guest(), machine.guest()
    b("init()")
    a("init(); alloc(1000)")
    assert b("taken()") == 2 * CONTEXT + 1000
    assert a.process.stdin
    assert a.process.stdout
    a.process.stdin.write("\"os.execvp('sh', ['sh', '-c', 'echo now; cat'])\"\n")
    a.process.stdin.flush()
    assert a.process.stdout.readline() == "now\n"
    assert b("taken()") == CONTEXT
    assert a.process.poll() is None


def test_a_forked_child_outliving_its_parent_keeps_nothing(machine: Machine) -> None:
    a, b = machine.guest(), machine.guest()
    b("init()")
    a("init(); alloc(1000)")
    a("child = os.fork()\nif child == 0:\n    import time\n    time.sleep(60)")
    child = a("child")
    a.kill()
    assert b("taken()") == CONTEXT
    os.kill(child, signal.SIGKILL)


def test_an_orderly_end_gives_all_back(machine: Machine) -> None:
    a, b = machine.guest(), machine.guest()
    a("init()")
    a("alloc(10000)")
    b("init()")
    a.end()
    assert b("taken()") == CONTEXT


def test_killing_at_any_moment_loses_nothing(machine: Machine) -> None:
    """Processes die in the middle of taking and giving; the figure is right afterwards."""
    watcher = machine.guest()
    watcher("init()")
    loop = "init()\nprint(json.dumps({'value': 0}), flush=True)\nwhile True:\n    free(alloc(3)); free(alloc(1))"
    for round_ in range(12):
        victims = [machine.guest() for _ in range(3)]
        for victim in victims:
            victim(loop)
        watcher(f"import time; time.sleep({0.001 * round_})")
        for victim in victims:
            victim.kill()
        assert watcher("taken()") == CONTEXT
        assert watcher("refused(alloc, 15000)") == 0
        watcher("cu('DevicePrimaryCtxReset_v2', 0); init()")


def test_64_processes_start_at_once(machine: Machine) -> None:
    code = (
        "import ctypes; c = ctypes.CDLL('libcuda.so.1'); x = ctypes.c_void_p(); p = ctypes.c_uint64()\n"
        "assert c.cuInit(0) == 0\n"
        "assert c.cuCtxCreate_v2(ctypes.byref(x), 0, 0) == 0\n"
        "assert c.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(50 << 20)) == 0\n"
        "print('up', flush=True); input()"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-S", "-c", code],
            env=machine.env(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(64)
    ]
    try:
        assert [p.stdout.readline() for p in started if p.stdout] == ["up\n"] * 64
        watcher = machine.guest()
        assert watcher("processes()") == sorted([p.pid, CONTEXT + 50] for p in started)
        assert watcher("cuda.hamisim_used(0)") == 64 * (CONTEXT + 50) << 20
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert watcher("cuda.hamisim_used(0)") == 0


def test_racing_processes_never_pass_the_total(machine: Machine) -> None:
    guests = [machine.guest() for _ in range(8)]
    for guest in guests:
        guest("init()")
    code = "sum(refused(alloc, 100) == 0 for _ in range(40))"
    with ThreadPoolExecutor(len(guests)) as pool:
        got = sum(pool.map(lambda guest: guest(code), guests))
    assert got == (TOTAL - 8 * CONTEXT) // 100
    assert guests[0]("taken()") == 8 * CONTEXT + got * 100


def test_later_processes_read_what_the_first_wrote(machine: Machine) -> None:
    first = machine.guest(HAMI_SIM_PROFILE="h200", HAMI_SIM_CARDS="2")
    later = machine.guest(HAMI_SIM_PROFILE="a10", HAMI_SIM_CARDS="7")
    first("init()")
    later("init()")
    assert len(later("uuids()")) == 2
    assert later("taken()") == 2 * 518
    assert first("uuids()") == later("uuids()")


@pytest.mark.parametrize(
    ("profile", "name", "total"),
    [
        ("t4", "Tesla T4", 15360),
        ("a10", "NVIDIA A10", 23028),
        ("a100-40gb", "NVIDIA A100-SXM4-40GB", 40960),
        ("h200", "NVIDIA H200", 143771),
    ],
)
def test_profiles(machine: Machine, profile: str, name: str, total: int) -> None:
    guest = machine.guest(HAMI_SIM_PROFILE=profile)
    guest("init()")
    guest("b = ctypes.create_string_buffer(64); n = ctypes.c_size_t()")
    guest("cu('DeviceGetName', b, 64, 0); cu('DeviceTotalMem_v2', ctypes.byref(n), 0)")
    assert guest("b.value.decode()") == name
    assert guest("n.value // MIB") == total


def test_the_stack_limit_of_an_h200_takes_what_was_measured(machine: Machine) -> None:
    guest = machine.guest(HAMI_SIM_PROFILE="h200")
    guest("init()")
    guest("cu('CtxSetLimit', 0, ctypes.c_size_t(16384))")
    assert guest("taken()") == 518 + 3960


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"HAMI_SIM_PROFILE": "rtx"}, "HAMI_SIM_PROFILE=rtx is no card: use t4, a10, a100-40gb or h200."),
        ({"HAMI_SIM_CARDS": "17"}, "HAMI_SIM_CARDS=17 is no number of cards: use 1 to 16."),
        ({"HAMI_SIM_CARDS": "one"}, "HAMI_SIM_CARDS=one is no number of cards: use 1 to 16."),
        ({"HAMI_SIM_DIR": "/proc/none"}, "The simulated card can't write in /proc/none"),
    ],
)
def test_a_wrong_setting_is_one_sentence_and_no_device(machine: Machine, env: dict[str, str], said: str) -> None:
    code = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuInit(0), ctypes.CDLL('libnvidia-ml.so.1').nvmlInit_v2())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=machine.env(**env), capture_output=True, text=True, check=True
    )
    assert done.stdout == "100 9\n"
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


def test_a_state_of_another_version_is_refused(machine: Machine) -> None:
    (machine.directory / "state").write_bytes(b"something else")
    guest = machine.guest()
    assert guest("cuda.cuInit(0)") == 803
    assert guest("nvml.nvmlInit_v2()") == 18


def test_processes_of_a_new_pid_namespace_share_the_card(machine: Machine) -> None:
    """Liveness and PIDs come from the kernel, so PIDs of another namespace can't be mixed up."""
    wrapper = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
    if subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode:
        pytest.skip("This machine doesn't let the tests make PID namespaces.")
    inside, outside = machine.guest(*wrapper), machine.guest()
    outside("init()")
    inside("init(); alloc(1000)")
    assert inside("os.getpid()") < 10
    assert inside("processes()") == [[inside("os.getpid()"), CONTEXT + 1000]]
    assert inside("taken()") == 2 * CONTEXT + 1000
    seen = outside("processes()")
    assert sorted(mib for _, mib in seen) == [CONTEXT, CONTEXT + 1000]
    assert {pid for pid, _ in seen} > {outside.pid}
    assert all(os.path.exists(f"/proc/{pid}") for pid, _ in seen)
    inside.kill()
    while outside("len(processes())") == 2:  # the namespace's init ends a moment after its parent
        time.sleep(0.001)
    assert outside("taken()") == CONTEXT


def test_memory_travels_by_ipc_handle(machine: Machine) -> None:
    a, b = machine.guest(), machine.guest()
    a("init(); p = alloc(10)")
    a("cu('MemsetD8_v2', ctypes.c_uint64(p + 5 * MIB), 7, ctypes.c_size_t(100))")
    a("h = (ctypes.c_char * 64)(); cu('IpcGetMemHandle', h, ctypes.c_uint64(p))")
    handle = a("bytes(h).hex()")
    b("init()")
    b("class Handle(ctypes.Structure):\n    _fields_ = [('b', ctypes.c_char * 64)]")
    b(f"h = Handle(); ctypes.memmove(ctypes.byref(h), bytes.fromhex('{handle}'), 64); q = ctypes.c_uint64()")
    b("cu('IpcOpenMemHandle_v2', ctypes.byref(q), h, 1)")
    assert b("taken()") == 2 * CONTEXT + 10  # the importer isn't charged
    b("out = (ctypes.c_ubyte * 4)(); cu('MemcpyDtoH_v2', out, ctypes.c_uint64(q.value + 5 * MIB), ctypes.c_size_t(4))")
    assert b("list(out)") == [7, 7, 7, 7]
    b("cu('MemsetD8_v2', q, 9, ctypes.c_size_t(1))")
    a("out = (ctypes.c_ubyte * 1)(); cu('MemcpyDtoH_v2', out, ctypes.c_uint64(p), ctypes.c_size_t(1))")
    assert a("list(out)") == [9]
    b("cu('IpcCloseMemHandle', q)")
    a("free(p)")
    assert b("refused(lambda: cu('IpcOpenMemHandle_v2', ctypes.byref(q), h, 1))") == 400
