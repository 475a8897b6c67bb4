"""NVML through pynvml, unmodified."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .conftest import Machine

pytest.importorskip("pynvml")

PRELUDE = """
import ctypes, os, json
from pynvml import *
nvmlInit()
h = nvmlDeviceGetHandleByIndex(0)
def fails(call, *arguments):
    try:
        call(*arguments)
    except NVMLError as error:
        return error.value
    return 0
def text(value):
    return value.decode() if isinstance(value, bytes) else value
"""


def ask(machine: Machine, code: str, **env: str) -> str:
    return machine.python(PRELUDE + code, **env).strip()


def test_it_names_itself_and_its_cards(machine: Machine) -> None:
    code = """
uuid, serial, bus = nvmlDeviceGetUUID(h), nvmlDeviceGetSerial(h), nvmlDeviceGetPciInfo(h).busId
print(nvmlSystemGetDriverVersion(), nvmlDeviceGetCount(), nvmlDeviceGetName(h), uuid)
for other in (nvmlDeviceGetHandleByUUID(uuid), nvmlDeviceGetHandleBySerial(serial), nvmlDeviceGetHandleByPciBusId(bus)):
    assert nvmlDeviceGetIndex(other) == 0
assert nvmlSystemGetNVMLVersion().endswith(nvmlSystemGetDriverVersion())
assert nvmlDeviceGetMinorNumber(h) == 0 and nvmlDeviceGetBoardId(h) > 0
assert nvmlDeviceGetCudaComputeCapability(h) == (7, 5) or nvmlDeviceGetCudaComputeCapability(h) == [7, 5]
assert nvmlDeviceGetArchitecture(h) == NVML_DEVICE_ARCH_TURING
assert nvmlDeviceGetBrand(h) == NVML_BRAND_TESLA
assert nvmlDeviceGetNumGpuCores(h) == 2560
assert fails(nvmlDeviceGetHandleByIndex, 1) == NVML_ERROR_INVALID_ARGUMENT
assert fails(nvmlDeviceGetHandleByUUID, b"GPU-1") == NVML_ERROR_NOT_FOUND
"""
    assert ask(machine, code) == "580.159.04 1 Tesla T4 GPU-e1a2b2cd-12cc-4b87-a87c-ef9ee612432d"


def test_what_nvidia_smi_asks_has_an_answer(machine: Machine) -> None:
    code = """
nvmlSystemGetCudaDriverVersion()
for call in (nvmlDeviceGetPersistenceMode, nvmlDeviceGetDisplayActive, nvmlDeviceGetPerformanceState,
             nvmlDeviceGetPowerUsage, nvmlDeviceGetEnforcedPowerLimit, nvmlDeviceGetPowerManagementLimitConstraints,
             nvmlDeviceGetUtilizationRates, nvmlDeviceGetEccMode, nvmlDeviceGetComputeMode, nvmlDeviceGetPciInfo,
             nvmlDeviceGetMaxPcieLinkGeneration, nvmlDeviceGetMaxPcieLinkWidth, nvmlDeviceGetBAR1MemoryInfo,
             nvmlDeviceGetVbiosVersion, nvmlDeviceGetCurrentClocksEventReasons, nvmlDeviceGetTotalEnergyConsumption,
             nvmlDeviceGetEncoderUtilization, nvmlDeviceGetDecoderUtilization, nvmlDeviceGetVirtualizationMode,
             nvmlDeviceGetMultiGpuBoard, nvmlDeviceGetAccountingMode, nvmlDeviceGetGraphicsRunningProcesses):
    call(h)
for clock in (NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO):
    assert 0 < nvmlDeviceGetClockInfo(h, clock) <= nvmlDeviceGetMaxClockInfo(h, clock)
assert 20 < nvmlDeviceGetTemperature(h, NVML_TEMPERATURE_GPU) < 90
assert nvmlDeviceGetTemperatureThreshold(h, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN) > 80
assert nvmlDeviceGetTotalEccErrors(h, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC) == 0
assert fails(nvmlDeviceGetFanSpeed, h) == NVML_ERROR_NOT_SUPPORTED
assert fails(nvmlDeviceGetMigMode, h) == NVML_ERROR_NOT_SUPPORTED
values = nvmlDeviceGetFieldValues(h, [NVML_FI_DEV_ECC_CURRENT, NVML_FI_DEV_MEMORY_TEMP])
assert [v.nvmlReturn for v in values] == [0, NVML_ERROR_NOT_SUPPORTED] and values[0].value.uiVal == 1
print(text(nvmlErrorString(NVML_ERROR_NOT_SUPPORTED)))
"""
    assert ask(machine, code) == "Not Supported"


def test_mig_is_off_where_there_is_mig(machine: Machine) -> None:
    assert ask(machine, "print(list(nvmlDeviceGetMigMode(h)))", HAMI_SIM_PROFILE="h200") == "[0, 0]"


def test_both_versions_of_memory_agree(machine: Machine) -> None:
    guest = machine.guest()
    guest("init(); alloc(1000)")
    code = """
a, b = nvmlDeviceGetMemoryInfo(h), nvmlDeviceGetMemoryInfo(h, version=nvmlMemory_v2)
assert (a.total, a.used, a.free) == (b.total, b.used, b.free) and b.reserved == 0
print(a.total >> 20, a.used >> 20, a.free >> 20)
"""
    assert ask(machine, code) == "15360 1104 14256"


def test_all_versions_of_the_process_list_agree(machine: Machine) -> None:
    guest = machine.guest()
    guest("init(); alloc(1000)")
    code = """
v1, v2, v3 = (f(h) for f in (nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetComputeRunningProcesses_v2,
                             nvmlDeviceGetComputeRunningProcesses_v3))
for listed in (v1, v2, v3):
    assert [(p.pid, p.usedGpuMemory) for p in listed] == [(v3[0].pid, v3[0].usedGpuMemory)]
class V1(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong)]
raw, count = (V1 * 4)(), ctypes.c_uint(0)
library = ctypes.CDLL("libnvidia-ml.so.1")
assert library.nvmlDeviceGetComputeRunningProcesses(h, ctypes.byref(count), None) == NVML_ERROR_INSUFFICIENT_SIZE
assert count.value == 1
assert library.nvmlDeviceGetComputeRunningProcesses(h, ctypes.byref(count), raw) == 0
print(raw[0].pid, raw[0].used >> 20, os.path.basename(text(nvmlSystemGetProcessName(raw[0].pid))))
"""
    pid, mib, name = ask(machine, code).split()
    assert (int(pid), int(mib)) == (guest.pid, 1104)
    assert name.startswith("python")


def test_a_process_without_a_context_is_not_listed(machine: Machine) -> None:
    guest = machine.guest()
    guest("cu('Init', 0)")
    assert guest("processes()") == []
    guest("init()")
    assert len(guest("processes()")) == 1
    guest("cu('DevicePrimaryCtxRelease_v2', 0)")
    assert guest("processes()") == []


def test_utilisation_is_the_engines_own_account(machine: Machine) -> None:
    """By the manual clock: 300 ms of work in a second are 30 %."""
    worker = machine.guest(HAMI_SIM_CLOCK="manual")
    worker("init(); f = spinner(); cuda.hamisim_advance(2_000_000_000); spin(f, 300_000_000)")
    worker("cuda.hamisim_advance(1_000_000_000)")
    code = """
samples = nvmlDeviceGetProcessUtilization(h, 0)
print(nvmlDeviceGetUtilizationRates(h).gpu, [(s.pid, s.smUtil) for s in samples])
"""
    assert ask(machine, code) == f"30 [({worker.pid}, 30)]"
    worker("cuda.hamisim_advance(2_000_000_000)")
    assert ask(machine, "print(nvmlDeviceGetUtilizationRates(h).gpu)") == "0"


def test_an_xid_reaches_who_watches(machine: Machine) -> None:
    machine.environment["HAMI_SIM_CARDS"] = "2"
    code = """
simulated = ctypes.CDLL("libnvidia-ml.so.1")
simulated.hamisim_raise_xid.argtypes = [ctypes.c_uint, ctypes.c_uint64]
events = nvmlEventSetCreate()
assert nvmlDeviceGetSupportedEventTypes(h) & nvmlEventTypeXidCriticalError
simulated.hamisim_raise_xid(0, 1)  # before it watches
nvmlDeviceRegisterEvents(h, nvmlEventTypeXidCriticalError, events)
try:
    nvmlEventSetWait_v2(events, 1)
except NVMLError as error:
    assert error.value == NVML_ERROR_TIMEOUT
else:
    raise AssertionError
print("watching", flush=True)
data = nvmlEventSetWait_v2(events, 20000)
print(data.eventType, data.eventData, nvmlDeviceGetIndex(data.device))
nvmlEventSetFree(events)
"""
    with subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code], env=machine.env(), stdout=subprocess.PIPE, text=True
    ) as watcher:
        assert watcher.stdout
        assert watcher.stdout.readline() == "watching\n"
        guest = machine.guest()
        assert guest("nvml.hamisim_raise_xid(1, 48)") == 0  # another card
        assert guest("nvml.hamisim_raise_xid(0, 79)") == 0
        assert guest("nvml.hamisim_raise_xid(9, 79)") == -1
        assert watcher.stdout.read() == "8 79 0\n"


def test_a_lost_card_is_lost_to_every_question_and_the_others_are_not(machine: Machine) -> None:
    machine.environment["HAMI_SIM_CARDS"] = "2"
    code = """
other = nvmlDeviceGetHandleByIndex(1)
uuid = nvmlDeviceGetUUID(h)
simulated = ctypes.CDLL("libnvidia-ml.so.1")
events = nvmlEventSetCreate()
nvmlDeviceRegisterEvents(h, nvmlEventTypeXidCriticalError, events)
assert simulated.hamisim_lose_card(0, 1) == 0
assert nvmlEventSetWait_v2(events, 20000).eventData == 79
lost = {fails(call, argument) for call, argument in ((nvmlDeviceGetMemoryInfo, h), (nvmlDeviceGetName, h),
        (nvmlDeviceGetUUID, h), (nvmlDeviceGetHandleByIndex, 0), (nvmlDeviceGetHandleByUUID, uuid))}
assert nvmlDeviceGetCount() == 2 and nvmlDeviceGetMemoryInfo(other).total
assert simulated.hamisim_lose_card(0, 0) == 0 and nvmlDeviceGetUUID(h) == uuid
print(lost == {NVML_ERROR_GPU_IS_LOST})
"""
    assert ask(machine, code) == "True"


def test_mig_devices_are_listed_as_they_were_cut(machine: Machine) -> None:
    code = """
assert nvmlDeviceGetMigMode(h) == [1, 1] and nvmlDeviceGetMaxMigDeviceCount(h) == 7
found = [nvmlDeviceGetMigDeviceHandleByIndex(h, i) for i in range(2)]
assert fails(nvmlDeviceGetMigDeviceHandleByIndex, h, 2) == NVML_ERROR_NOT_FOUND
assert [nvmlDeviceIsMigDeviceHandle(d).value for d in (*found, h)] == [1, 1, 0]
assert len({text(nvmlDeviceGetUUID(m)) for m in found}) == 2 and text(nvmlDeviceGetUUID(found[0])).startswith("MIG-")
parent = nvmlDeviceGetDeviceHandleFromMigDeviceHandle(found[0])
assert nvmlDeviceGetUUID(parent) == nvmlDeviceGetUUID(h)
for m in found:
    a = nvmlDeviceGetAttributes(m)
    print(text(nvmlDeviceGetName(m)), a.gpuInstanceSliceCount, nvmlDeviceGetMemoryInfo(m).total >> 20)
"""
    wish = {"HAMI_SIM_PROFILE": "a100-40gb", "HAMI_SIM_MIG": "1g,3g"}
    assert ask(machine, code, **wish).splitlines() == [
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb 1 4864",
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb 3 19456",
    ]


@pytest.mark.parametrize("wish", ["1g,7g", "5g", "1", "g", "1g;1g", "-1g"])
def test_a_cut_that_no_card_has_is_refused(machine: Machine, wish: str) -> None:
    with pytest.raises(AssertionError, match="DriverNotLoaded"):
        ask(machine, "", HAMI_SIM_PROFILE="h200", HAMI_SIM_MIG=wish)


def test_uninitialised_calls_say_so(machine: Machine) -> None:
    code = """
nvmlShutdown()
print(fails(nvmlDeviceGetCount), fails(nvmlShutdown))
"""
    assert ask(machine, code) == "1 1"


def test_shutting_nvml_down_does_not_end_the_drivers_claim(machine: Machine) -> None:
    """Both libraries know the same file; closing it in one would drop the lock that the other holds on it."""
    guest, other = machine.guest(), machine.guest()
    guest("init(); alloc(1000); device(); nv('Shutdown')")
    guest("import _ctypes; _ctypes.dlclose(nvml._handle)")
    other("init()")
    assert other("taken()") == 2 * 104 + 1000
