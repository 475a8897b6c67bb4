"""The processes of a slice: they race, fork, exec and die, and the slice stays true."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from guest_calls import OUT_OF_MEMORY

from hami_hub.slicepage import layout
from hami_hub.slicepage.process import ProcessMark, mark

from .conftest import PROGRAMS, Machine, Slice

LIMIT = 1000
CONTEXT = 104


def eventually(condition: Callable[[], bool]) -> bool:
    """The driver takes its time to clean up behind a killed process."""
    end = time.monotonic() + 60
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_kill_9_gives_the_share_back(machine: Machine):
    place = machine.slice(LIMIT)
    victim, survivor = place.guest(), place.guest()
    victim("start(); alloc(600)")
    survivor("start()")
    assert survivor.refused("alloc(600)") == OUT_OF_MEMORY
    victim.kill()
    survivor("alloc(600)")
    assert eventually(lambda: survivor("info()") == [LIMIT - 600 - CONTEXT, LIMIT])


def test_the_view_forgets_a_killed_process(machine: Machine):
    place = machine.slice(LIMIT)
    victim, survivor = place.guest(), place.guest()
    victim("start(); alloc(600)")
    survivor("start()")
    victim.kill()
    assert eventually(lambda: survivor("info()") == [LIMIT - CONTEXT, LIMIT])


def test_normal_exit_gives_the_share_back(machine: Machine):
    place = machine.slice(LIMIT)
    first = place.guest()
    first("start(); alloc(800)")
    assert first.stderr() == ""
    first.process.wait()
    second = place.guest()
    second("start(); alloc(800)")


def test_two_processes_that_race_never_pass_together(machine: Machine):
    place = machine.slice(LIMIT)
    guests = [place.guest() for _ in range(4)]
    for guest in guests:
        guest("start()")
    room = LIMIT - 4 * CONTEXT
    at = time.time() + 0.3
    for guest in guests:
        # all at the same moment, without waiting for one another's answer
        guest.process.stdin.write(
            f"\"time_out = __import__('time').sleep(max(0, {at} - __import__('time').time()))\"\n"
        )
        guest.process.stdin.write("\"take_until_refused('cuMemAlloc_v2', 10)\"\n")
        guest.process.stdin.flush()
    counts = []
    for guest in guests:
        guest.process.stdout.readline()
        counts.append(int(guest.process.stdout.readline().split(":")[1].strip(" }\n")))
    assert sum(counts) == room // 10
    assert sum(machine.true_use(guest.pid) for guest in guests) <= LIMIT


@pytest.mark.parametrize(("threads", "limit"), [(1, 1000), (6, 1000), (6, 400)])
def test_pools_of_many_threads_stay_within_the_limit(native, machine: Machine, threads: int, limit: int):
    program = native.compile(PROGRAMS / "pool_threads.c", flags=(f"-L{native.sim}", "-l:libcuda.so.1"))
    place = machine.slice(limit)
    made, refused, held = map(int, machine.run(program, str(threads), "60", **place.environment).stdout.split())
    assert made > 0
    assert refused > 0 or limit > 400
    assert held == CONTEXT
    # what a pool took beyond its room was undone, and counted
    assert machine.peak() <= limit or place.view().cards[0].overshoots > 0


@pytest.mark.parametrize("threads", [1, 8])
def test_threads_never_pass_the_limit(native, machine: Machine, threads: int):
    program = native.compile(PROGRAMS / "threads.c", flags=(f"-L{native.sim}", "-l:libcuda.so.1"))
    place = machine.slice(700)
    made, refused, used = map(int, machine.run(program, str(threads), "60", "700", **place.environment).stdout.split())
    assert made > 0
    if threads > 1:
        assert refused > 0
    assert used == CONTEXT


FORK = """
child = os.fork()
if child == 0:
    code = 99
    try:
        {child}
        code = 0
    except CudaError as error:
        code = error.code
    finally:
        os._exit(code)
"""
WAIT = "os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])"


def test_a_child_before_cuda_is_a_member_of_its_own(machine: Machine):
    place = machine.slice(LIMIT)
    parent = place.guest()
    parent(FORK.format(child="start(); alloc(600); __import__('time').sleep(60)"))
    assert eventually(lambda: place.used() == CONTEXT + 600)
    child = parent("child")
    assert [p.pid for p in place.view().processes] == [child]
    parent("start()")
    assert parent.refused("alloc(600)") == OUT_OF_MEMORY
    os.kill(child, 9)
    parent("os.waitpid(child, 0)")
    parent("alloc(600)")


def test_a_child_after_cuda_leaves_the_parents_share_alone(machine: Machine):
    place = machine.slice(LIMIT)
    parent = place.guest()
    parent("start(); p = alloc(600)")
    # a forked CUDA process can't use the card; whatever the driver answers, it is the driver's
    parent(FORK.format(child="free(p)"))
    assert parent(WAIT) not in (0, 99)
    assert place.used() == CONTEXT + 600
    parent("free(p)")
    assert place.used() == CONTEXT


def test_fork_in_a_thread_while_others_allocate(machine: Machine):
    place = machine.slice(LIMIT)
    parent = place.guest()
    parent("start(); import threading, subprocess; ctx = c_void_p(); cu('cuCtxGetCurrent', byref(ctx)); stop = False")
    parent("""
def churn():
    cu('cuCtxSetCurrent', ctx)
    while not stop:
        free(alloc(10)); free(alloc_bytes(5000)); release(physical(2))
workers = [threading.Thread(target=churn) for _ in range(3)]
for worker in workers: worker.start()
""")
    for _ in range(20):
        parent(FORK.format(child="pass"))
        assert parent(WAIT) == 0
        assert parent("subprocess.run(['true']).returncode") == 0
    parent("stop = True; [worker.join() for worker in workers]")
    assert place.used() == CONTEXT == machine.true_use(parent.pid)


def test_exec_gives_the_old_images_share_back(machine: Machine):
    place = machine.slice(LIMIT)
    guest = place.guest()
    guest("start(); alloc(600)")
    guest("exec_again(answers)")
    guest("start()")
    guest("alloc(800)")
    assert len(place.view().processes) == 1
    assert place.used() == CONTEXT + 800


def test_spawned_programs_meet_the_same_limit(machine: Machine, native):
    """posix_spawn and subprocess use vfork."""
    program = native.compile(PROGRAMS / "linked.c", flags=(f"-L{native.sim}", "-l:libcuda.so.1"))
    place = machine.slice(LIMIT)
    parent = place.guest()
    parent("start(); alloc(500); import subprocess")
    assert parent(f"subprocess.run([{str(program)!r}, '64'], capture_output=True, text=True).stdout") == "4 2\n"
    parent(f"pid = os.posix_spawn({str(program)!r}, ['linked', '64'], os.environ)")
    assert parent("os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])") == 0
    assert eventually(lambda: place.used() == CONTEXT + 500)


def test_many_processes_start_at_once(machine: Machine, native):
    program = native.compile(PROGRAMS / "linked.c", flags=(f"-L{native.sim}", "-l:libcuda.so.1"))
    place = machine.slice(10_000)
    running = [
        subprocess.Popen([program, "4000"], env={**machine.environment, **place.environment}, stdout=subprocess.PIPE)
        for _ in range(32)
    ]
    codes = [int(p.communicate()[0].split()[1]) for p in running]
    assert set(codes) <= {2}
    assert place.used() == 0
    assert place.view().cards[0].peak <= 10_000


@contextmanager
def crowd(machine: Machine, native, place: Slice, count: int) -> Iterator[tuple[int, int]]:
    """So many living processes; how many of them could use CUDA and how many were refused."""
    program = native.compile(PROGRAMS / "crowd.c", flags=(f"-L{native.sim}", "-l:libcuda.so.1"))
    environment = {**machine.environment, **place.environment}
    with subprocess.Popen(
        [program, str(count)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        started, refused = parent.stdout.readline().split()
        yield int(started), int(refused)
        parent.stdin.close()
        assert parent.wait() == 0


def test_a_thousand_processes_start_at_once(machine: Machine, native):
    place = machine.slice(4000)
    with crowd(machine, native, place, 1000) as (started, refused):
        assert (started, refused) == (1000, 0)
        assert place.used() == 2000
        assert len(place.view().processes) == 1000
    assert place.used() == 0


def test_a_full_page_refuses_the_next_and_nobody_else(machine: Machine, native):
    """The simulated card itself has room for as many processes as the page."""
    place = machine.slice(4000)
    page = bytearray((place.directory / "usage").read_bytes())
    taken = 1000
    own = ProcessMark(os.getpid(), mark(os.getpid()).started)
    for index in range(taken):  # by somebody who lives
        offset = layout.Usage.processes.offset + index * ctypes.sizeof(layout.Process)
        page[offset : offset + 8] = (own.pid << 32 | (own.started & 0xFFFFFFFF)).to_bytes(8, "little")
    page = page[: layout.Usage.process_high.offset] + taken.to_bytes(4, "little") + page[layout.Usage.zero.offset :]
    (place.directory / "usage").write_bytes(page)
    with crowd(machine, native, place, 30) as (started, refused):
        assert started == layout.MAX_PROCESSES - taken
        assert refused == 30 - started


def test_a_recycled_pid_is_no_owner(machine: Machine):
    """A slot whose PID lives on as another process is cleared like any dead one."""
    place = machine.slice(LIMIT)
    victim = place.guest()
    victim("start(); alloc(600)")
    usage = place.directory / "usage"
    page = bytearray(usage.read_bytes())
    offset = layout.Usage.processes.offset
    owner = int.from_bytes(page[offset : offset + 8], "little")
    assert owner >> 32 == victim.pid
    victim.kill()
    with usage.open("r+b") as file:  # the PID is ours now, started at another time
        file.seek(offset)
        file.write((os.getpid() << 32 | (owner & 0xFFFFFFFF)).to_bytes(8, "little"))
    survivor = place.guest()
    survivor("start(); alloc(800)")


def test_nothing_of_the_process_is_changed(machine: Machine):
    """No umask, no signal handler, nothing on stdout or stderr."""
    guest = machine.slice(LIMIT).guest()
    guest("import signal; os.umask(0o27)")
    before = guest("[str(signal.getsignal(s)) for s in range(1, 32)]")
    guest("start(); free(alloc(10))")
    assert guest("os.umask(0o27)") == 0o27
    assert guest("[str(signal.getsignal(s)) for s in range(1, 32)]") == before
    assert guest("len(os.listdir('/proc/self/task'))") == _threads_without_limiter(machine)
    assert guest.stderr() == ""


def _threads_without_limiter(machine: Machine) -> int:
    outsider = machine.outsider()
    outsider("start(); free(alloc(10))")
    return outsider("len(os.listdir('/proc/self/task'))")
