"""MIG devices: named as NVIDIA names them, offered one by one."""

from __future__ import annotations

import pytest

from cluster.deviceplugin.mig import MigDevice, MigOffer, offers_by_resource, profile_name
from hami_hub.core.cards import CardUuid
from hami_hub.core.units import Mib

A100, H200 = Mib(40960), Mib(143771)


@pytest.mark.parametrize(
    ("device", "card", "name"),
    [
        (MigDevice(CardUuid("a"), "0:0", Mib(4864), 1, 1), A100, "1g.5gb"),
        (MigDevice(CardUuid("a"), "0:0", Mib(4864), 1, 1, media=True), A100, "1g.5gb.me"),
        (MigDevice(CardUuid("a"), "0:0", Mib(9856), 2, 2), A100, "2g.10gb"),
        (MigDevice(CardUuid("a"), "0:0", Mib(9856), 2, 1), A100, "1c.2g.10gb"),
        (MigDevice(CardUuid("a"), "0:0", Mib(19968), 3, 3), A100, "3g.20gb"),
        (MigDevice(CardUuid("a"), "0:0", Mib(40320), 7, 7, media=True), A100, "7g.40gb"),
        (MigDevice(CardUuid("a"), "0:0", Mib(16384), 1, 1), H200, "1g.18gb"),
    ],
)
def test_a_device_has_its_profiles_name(device: MigDevice, card: Mib, name: str) -> None:
    assert profile_name(device, card) == name


def test_devices_come_under_their_profiles_resource_with_their_cards_health() -> None:
    small, large = (
        MigDevice(CardUuid("MIG-b"), "0:0", Mib(4864), 1, 1),
        MigDevice(CardUuid("MIG-c"), "0:1", Mib(19968), 3, 3),
    )
    cards = [
        (A100, True, (small, large)),
        (A100, False, (MigDevice(CardUuid("MIG-a"), "1:0", Mib(4864), 1, 1),)),
        (A100, True, ()),
    ]
    assert offers_by_resource(cards, prefix="nvidia.com/") == {
        "nvidia.com/mig-1g.5gb": (MigOffer("MIG-a", False), MigOffer("MIG-b", True)),
        "nvidia.com/mig-3g.20gb": (MigOffer("MIG-c", True),),
    }
