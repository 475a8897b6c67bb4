"""Slots: as many healthy ones are left for new containers as the healthy cards take slices."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster.deviceplugin.slots import offer_slots, slot_name


def test_all_slots_of_healthy_cards_are_healthy() -> None:
    slots = offer_slots(total=20, ill=0)
    assert len(slots) == 20
    assert all(slot.healthy for slot in slots)
    assert [slot.name for slot in slots] == sorted(slot.name for slot in slots)


def test_the_slots_of_slices_on_an_ill_card_go_first() -> None:
    held = {slot_name(3), slot_name(7)}
    slots = offer_slots(total=20, ill=10, held_on_ill=held, held_on_healthy={slot_name(19)})
    ill = {slot.name for slot in slots if not slot.healthy}
    assert held <= ill
    assert slot_name(19) not in ill


@given(st.data())
def test_what_is_left_for_new_containers_is_what_the_healthy_cards_take(data: st.DataObject) -> None:
    """Cards of 10 slots each; slices hold slots at random and lie on cards at random, never more than 10 on a card."""
    cards = data.draw(st.integers(1, 6))
    ill_cards = data.draw(st.sets(st.integers(0, cards - 1)))
    loads = data.draw(st.lists(st.integers(0, 10), min_size=cards, max_size=cards))
    names = data.draw(st.permutations([slot_name(number) for number in range(10 * cards)]))
    held: list[list[str]] = []
    for load in loads:
        held.append(list(names[:load]))
        names = names[load:]
    on_ill = {slot for card in ill_cards for slot in held[card]}
    on_healthy = {slot for card in range(cards) if card not in ill_cards for slot in held[card]}
    slots = offer_slots(total=10 * cards, ill=10 * len(ill_cards), held_on_ill=on_ill, held_on_healthy=on_healthy)
    free = [slot for slot in slots if slot.healthy and slot.name not in on_ill | on_healthy]
    assert len(free) == sum(10 - loads[card] for card in range(cards) if card not in ill_cards)
    assert all(slot.healthy for slot in slots if slot.name in on_healthy)
    assert not any(slot.healthy for slot in slots if slot.name in on_ill)
