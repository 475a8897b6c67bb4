"""The same calls with AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer in the limiter.

A sanitizer calls dlsym before it is ready, so in these builds the limiter leaves dlsym alone: linked programs meet
it as always, others once they have called one exported name.
"""

from __future__ import annotations

import subprocess

import guest_holders  # noqa: F401  it adds ways
import guest_ways
import pytest

from .conftest import PROGRAMS, Machine


def runtime(name: str) -> str:
    """The sanitizer's library, which must be loaded before the limiter."""
    return subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def machine(make_machine, native_address) -> Machine:
    return make_machine(limiter=native_address.limiter)


def test_every_way_is_clean(machine: Machine):
    place = machine.slice(1000)
    guest = place.guest(
        LD_PRELOAD=f"{runtime('libasan.so')} {runtime('libubsan.so')} {machine.limiter}",
        # Python itself keeps what it has until it ends
        ASAN_OPTIONS="detect_leaks=0:halt_on_error=1",
        UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
    )
    guest("ctypes.CDLL(None).cuInit(0)")
    guest("start()")
    assert guest("info()") == [1000 - 104, 1000]
    for way in sorted(guest_ways.ways):
        guest(f"take_until_refused({way!r}, 200); give_all()")
    guest("info(); nvml_memory(); nvml_pids(); nvml_uuids()")
    guest("child = os.fork() or os._exit(0); os.waitpid(child, 0)")
    assert guest.stderr() == ""
    assert guest.process.wait() == 0


THREADS = pytest.mark.parametrize("run", [("threads.c", "4", "30", "700"), ("pool_threads.c", "4", "20")])


@THREADS
def test_threads_are_clean(machine: Machine, native_address, run: tuple[str, ...]):
    flags = ("-fsanitize=address,undefined", f"-L{machine.sim}", "-l:libcuda.so.1")
    program = native_address.compile(PROGRAMS / run[0], flags=flags)
    place = machine.slice(700)
    environment = {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0", **place.environment}
    done = machine.run(program, *run[1:], **environment)
    assert done.stderr == ""


@THREADS
def test_threads_do_not_race(make_machine, native_thread, run: tuple[str, ...]):
    machine = make_machine(limiter=native_thread.limiter)
    flags = ("-fsanitize=thread", f"-L{machine.sim}", "-l:libcuda.so.1")
    program = native_thread.compile(PROGRAMS / run[0], flags=flags)
    place = machine.slice(700)
    done = machine.run(program, *run[1:], TSAN_OPTIONS="halt_on_error=0", **place.environment)
    assert "libvgpu" not in done.stderr
