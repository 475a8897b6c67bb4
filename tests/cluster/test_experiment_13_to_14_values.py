"""Experiments 13 and 14 (and 12 with defaultGPUNum 0): every value of HAMi's chart is in force."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.hami import CORES, COUNT, MEMORY, Hami

NEW_NAMES = {
    "resourceName": "example.com/gpu",
    "resourceMem": "example.com/mem",
    "resourceMemPercentage": "example.com/mem-percentage",
    "resourceCores": "example.com/cores",
    "resourcePriority": "example.com/priority",
}


OTHER_VALUES = (
    "scheduler.defaultMem=4000",
    "scheduler.defaultGPUNum=0",
    "devicePlugin.deviceSplitCount=3",
    "devicePlugin.deviceMemoryScaling=2",
    "devicePlugin.disablecorelimit=true",
    "devicePlugin.migStrategy=mixed",
)
OTHER_NAMES = ("scheduler.defaultCores=100", *(f"{value}={name}" for value, name in NEW_NAMES.items()))


@pytest.fixture(scope="module", autouse=True)
def values_as_before(hami: Hami) -> Iterator[None]:
    yield
    hami.install()
    hami.wait_cards()


@pytest.fixture(scope="class")
def changed(hami: Hami, request: pytest.FixtureRequest) -> None:
    hami.install(*request.param)
    hami.wait_cards()


@pytest.mark.usefixtures("changed")
@pytest.mark.parametrize("changed", [OTHER_VALUES], ids=[""], indirect=True)
class TestOtherValues:
    def test_experiment_12_without_a_default_count_the_pod_is_left_alone(self, hami: Hami, space: str) -> None:
        hami.pod("p", {MEMORY: 1000}, namespace=space, wait=False)
        pod = hami.cluster.pod("p", space)
        assert COUNT not in pod["spec"]["containers"][0]["resources"]["limits"]
        assert pod["spec"]["schedulerName"] == "default-scheduler"

    def test_experiment_13_default_mem(self, hami: Hami, space: str) -> None:
        hami.pod("p", {COUNT: 1}, namespace=space)
        assert "4000 MiB" in hami.smi("p", "--query-gpu=memory.total", "--format=csv", namespace=space)

    def test_experiment_13_split_count(self, hami: Hami, space: str) -> None:
        assert hami.register()[0]["count"] == 3
        assert hami.node()["status"]["allocatable"][COUNT] == "3"
        for name in ("a", "b", "c"):
            hami.pod(name, {COUNT: 1, MEMORY: 100}, namespace=space, wait=False)
        for name in ("a", "b", "c"):
            hami.cluster.wait_pod(name, namespace=space)
        hami.pod("d", {COUNT: 1, MEMORY: 100}, namespace=space, wait=False)
        assert "3" in hami.wait_event("d", space, "FilteringFailed")

    def test_experiment_13_memory_scaling(self, hami: Hami, space: str) -> None:
        assert hami.register()[0]["devmem"] == 2 * 15360
        hami.pod("p", {COUNT: 1, MEMORY: 20000}, namespace=space)
        assert "20000 MiB" in hami.smi("p", "--query-gpu=memory.total", "--format=csv", namespace=space)

    def test_experiment_13_no_core_limit(self, hami: Hami, space: str) -> None:
        hami.pod("p", {COUNT: 1, MEMORY: 1000, CORES: 10}, namespace=space)
        code = "from hami_hub.slicepage import read_slice, find_slice; print(read_slice(find_slice()).cards[0].policy)"
        assert "disable" in hami.python("p", code, namespace=space).lower()


@pytest.mark.usefixtures("changed")
@pytest.mark.parametrize("changed", [OTHER_NAMES], ids=[""], indirect=True)
class TestOtherNames:
    def test_experiment_13_default_cores_make_a_card_ones_own(self, hami: Hami, space: str) -> None:
        asked = {NEW_NAMES["resourceName"]: 1, NEW_NAMES["resourceMem"]: 1000}
        hami.pod("a", asked, namespace=space)
        (share,) = hami.slices("a", space)["main"]["shares"]
        assert (share["cores"], share["exclusive"]) == (100, True)
        hami.pod("b", asked, namespace=space, wait=False)
        hami.wait_event("b", space, "FilteringFailed")

    def test_experiment_14_other_names(self, hami: Hami, space: str) -> None:
        limits = {NEW_NAMES["resourceMem"]: 2000, NEW_NAMES["resourceCores"]: 20, NEW_NAMES["resourcePriority"]: 0}
        pod = hami.pod("p", limits, namespace=space)
        assert pod["spec"]["containers"][0]["resources"]["limits"][NEW_NAMES["resourceName"]] == "1"
        assert "2000 MiB" in hami.smi("p", "--query-gpu=memory.total", "--format=csv", namespace=space)
        assert hami.slices("p", space)["main"]["priority"] == 0
        half = {**limits, NEW_NAMES["resourceMemPercentage"]: 50}
        del half[NEW_NAMES["resourceMem"]]
        hami.pod("half", half, namespace=space)
        assert "7680 MiB" in hami.smi("half", "--query-gpu=memory.total", "--format=csv", namespace=space)
