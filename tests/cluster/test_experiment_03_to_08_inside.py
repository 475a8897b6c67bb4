"""Experiments 3 to 8: what a container on a slice sees, and where it ends.

The same with PyTorch on a real card is `make prove`'s; here the driver API answers, with the same words.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cluster.hami import CORES, COUNT, MEMORY, Hami

UUID_QUERY = ("--query-gpu=uuid", "--format=csv,noheader")
ENTRY_POINTS = (
    "cuMemAlloc_v2",
    "cuMemAllocManaged",
    "cuMemAllocPitch_v2",
    "cuMemAllocAsync",
    "cuMemCreate",
    "cuArrayCreate_v2",
    "cuGetProcAddress_v2",
    "cuMemGetInfo_v2",
    "nvmlDeviceGetMemoryInfo",
)
# su asks PAM, whose settings the image doesn't have
PAM = "".join(f"{kind} required pam_permit.so\n" for kind in ("auth", "account", "session"))
WITH_SU = {
    "volumes": [{"name": "pam", "configMap": {"name": "pam"}}],
    "container": {"volumeMounts": [{"name": "pam", "mountPath": "/etc/pam.d", "readOnly": True}]},
}


@pytest.fixture(scope="module")
def pair(hami: Hami) -> Iterator[str]:
    """The namespace of core-a and core-b: 4000 MiB of one card each."""
    name = f"space-{os.urandom(3).hex()}"
    with hami.cluster.namespace(name):
        hami.cluster.kubectl("create", "configmap", "pam", "-n", name, f"--from-literal=su={PAM}")
        for pod in ("core-a", "core-b"):
            hami.pod(pod, {COUNT: 1, MEMORY: 4000}, namespace=name, wait=False, **WITH_SU)
        for pod in ("core-a", "core-b"):
            hami.cluster.wait_pod(pod, namespace=name)
        hami.exec("core-a", "chmod", "711", "/root", namespace=name)  # this machine's Python may lie in it
        yield name


def test_experiment_03_the_limiter_is_preloaded(hami: Hami, pair: str) -> None:
    text = hami.exec("core-a", "cat", "/etc/ld.so.preload", namespace=pair)
    assert text.split() == ["/usr/local/vgpu/libvgpu.so"]


def test_experiment_04_it_has_the_entry_points_that_take_memory(hami: Hami, pair: str) -> None:
    names = hami.exec("core-a", "nm", "-D", "--defined-only", "/usr/local/vgpu/libvgpu.so", namespace=pair)
    exported = {line.split()[-1].split("@")[0] for line in names.splitlines()}
    assert set(ENTRY_POINTS) <= exported


def test_experiment_05_two_pods_share_one_card(hami: Hami, pair: str) -> None:
    seen = {hami.smi(pod, *UUID_QUERY, namespace=pair).strip() for pod in ("core-a", "core-b")}
    assert seen == {hami.register()[0]["id"]}


def test_experiment_06_the_card_looks_as_large_as_the_slice(hami: Hami, pair: str) -> None:
    total = hami.smi("core-a", "--query-gpu=memory.total", "--format=csv", namespace=pair)
    assert total.splitlines() == ["memory.total [MiB]", "4000 MiB"]
    code = "from hami_hub.notebook import gpu; print(gpu.total_memory())"
    assert hami.python("core-a", code, namespace=pair).strip() == "4000 MiB"


def test_experiment_07_two_gib_fit_and_six_do_not(hami: Hami, pair: str) -> None:
    code = "from hami_hub.notebook import gpu; gpu.allocate('2 GiB'); gpu.free(); gpu.allocate('6 GiB')"
    said = hami.python("core-a", code, namespace=pair)
    assert "2GB allocated (2048 MiB)" in said
    assert "OutOfMemoryError: CUDA out of memory. Tried to allocate 6.00 GiB." in said
    assert "GPU 0 has a total capacity of 3.91 GiB of which" in said


@pytest.mark.parametrize(
    "how",
    [
        ("env", "-i", "LD_LIBRARY_PATH={LD_LIBRARY_PATH}", "HAMI_SIM_DIR={HAMI_SIM_DIR}", "{python}"),
        ("sh", "-c", 'exec {python} "$@"', "sh"),
        ("su", "-s", "/bin/sh", "-c", '{python} "$@"', "jovyan", "--", "sh"),
        ("setpriv", "--reuid=65534", "--clear-groups", "{python}"),
        ("env", "CUDA_DEVICE_MEMORY_LIMIT_0=15000m", "CUDA_DISABLE_CONTROL=true", "LD_PRELOAD=", "{python}"),
    ],
    ids=["env -i", "shell", "su", "another user", "HAMi's variables"],
)
def test_experiment_07_no_way_of_starting_a_process_gets_more(hami: Hami, pair: str, how: tuple[str, ...]) -> None:
    inside = dict(line.split("=", 1) for line in hami.exec("core-a", "env", namespace=pair).splitlines() if "=" in line)
    inside["python"] = hami.exec("core-a", "python", "-c", "import sys; print(sys.executable)", namespace=pair).strip()
    code = "from hami_hub.notebook import gpu; print(gpu.total_memory()); gpu.allocate('6 GiB')"
    command = [each.format_map(inside) for each in how]
    result = hami.cluster.kubectl_run("exec", "-n", pair, "core-a", "--", *command, "-c", code)
    assert result.stdout.strip() == "4000 MiB", result.stderr
    assert "OutOfMemoryError" in result.stderr


def test_experiment_08_nvidia_smi_shows_the_slice_and_nothing_is_printed_around_it(hami: Hami, space: str) -> None:
    hami.pod("s", {COUNT: 1, MEMORY: 3000, CORES: 30}, namespace=space)
    first, *table = hami.smi("s", namespace=space).rstrip().splitlines()
    assert first[:3] in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    assert any("MiB /   3000MiB" in line for line in table)
    assert [line for line in table if line.strip() and line[0] not in "+|"] == []
    share = hami.slices("s", space)["main"]["shares"][0]
    assert (share["vram"], share["cores"]) == (3000, 30)
