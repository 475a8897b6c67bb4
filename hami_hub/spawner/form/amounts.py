"""The fields of a profile that leaves the amount open: what is preset, what may be typed, what fits now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...core.cards import CardState
from ...core.messages import largest_fit, why_no_room
from ...core.placement import NoRoom, place
from ...core.profiles import AmountBounds, ChoiceError, Profile, choose
from ...core.slices import SliceRequest
from ...core.units import MIB_PER_GIB, Mib, Percent, format_vram
from .fields import amount_field


@dataclass(frozen=True, slots=True)
class AmountField:
    """One text field.

    Attributes:
        hint: what may be typed and what fits now.
        error: what was wrong with `value` the last time; empty if nothing was.
        unit: shown behind the field.
        numeric: whether a keyboard of digits will do.
    """

    name: str
    label: str
    value: str
    hint: str
    error: str = ""
    unit: str = ""
    numeric: bool = False


Machines = Sequence[Sequence[CardState]]


def amount_fields(profile: Profile, machines: Machines, chosen: Mapping[str, str]) -> tuple[AmountField, ...]:
    """The fields of `profile`, filled with `chosen` or with what is preset; none if its amount is fixed.

    `machines` are the cards, those of one machine together; without any card nothing is known of them.
    """
    if profile.bounds is None:
        return ()
    request = profile.request or SliceRequest()
    usable = [
        [state for state in cards if state.card.healthy and request.wishes.allow(state.card)] for cards in machines
    ]
    known = any(map(len, machines))
    return (
        _vram_field(profile, profile.bounds, request, usable if known else None, chosen.get("vram", "")),
        _cores_field(profile, profile.bounds, usable if known else None, chosen.get("cores", "")),
    )


def fits_now(profile: Profile, machines: Machines) -> Mib:
    """The most VRAM on each card that starts at once where the amount is free; 0 if nothing that is allowed does."""
    if profile.bounds is None:
        return Mib(0)
    request = profile.request or SliceRequest()
    fit = max((_fit_on(request, cards) for cards in machines), default=Mib(0))
    return min(fit, profile.bounds.max_vram or fit) if fit >= profile.bounds.min_vram else Mib(0)


def _fit_on(request: SliceRequest, cards: Sequence[CardState]) -> Mib:
    fits = sorted((largest_fit((state,), request) for state in cards), reverse=True)
    return fits[request.cards - 1] if len(fits) >= request.cards else Mib(0)


def _vram_field(
    profile: Profile, bounds: AmountBounds, request: SliceRequest, usable: Machines | None, chosen: str
) -> AmountField:
    fits = fits_now(profile, usable or ())
    return AmountField(
        name=amount_field(profile.name, "vram"),
        label="VRAM",
        value=chosen or _preset(request.vram, fits, bounds.min_vram),
        hint=_vram_hint(bounds, usable, fits),
        error=_error(profile, "vram", chosen, usable),
    )


def _vram_hint(bounds: AmountBounds, usable: Machines | None, fits: Mib) -> str:
    least = format_vram(bounds.min_vram)
    if usable is None:
        return f"{least} to {format_vram(bounds.max_vram)}." if bounds.max_vram is not None else f"{least} or more."
    biggest = max((state.card.vram for cards in usable for state in cards), default=Mib(0))
    most = min(bounds.max_vram or biggest, biggest)
    now = f"; {format_vram(fits)} or less fits now" if fits else "; none of it is free now"
    return f"{least} to {format_vram(most)}{now if fits < most else ''}."


def _cores_field(profile: Profile, bounds: AmountBounds, usable: Machines | None, chosen: str) -> AmountField:
    free = max((state.free_cores for cards in usable or () for state in cards), default=Percent(0))
    now = f"; {free} is free now" if usable is not None and free < bounds.max_cores else ""
    preset = (profile.request or SliceRequest()).cores
    return AmountField(
        name=amount_field(profile.name, "cores"),
        label="Cores",
        value=chosen or str(preset),
        hint=f"Your share of the card's time, 0 to {bounds.max_cores}{now}. With 0 none is kept for you.",
        error=_error(profile, "cores", chosen, usable),
        unit="%",
        numeric=True,
    )


def _preset(preset: Mib | None, fits: Mib, least: Mib) -> str:
    """The profile's own preset, or a smaller round amount if only that fits now."""
    if preset is None:
        return ""
    if preset <= fits or not fits:
        return format_vram(preset)
    round_fit = Mib(fits - fits % MIB_PER_GIB)
    return format_vram(round_fit if round_fit >= least else fits)


def _error(profile: Profile, amount: str, value: str, usable: Machines | None) -> str:
    """Why `value` can't be had here, ever; a value that has to wait is no error."""
    if not value:
        return ""
    try:
        request = choose((profile,), {amount: value}, profile.groups).request
    except ChoiceError as error:
        return str(error)
    if request is None or usable is None:
        return ""
    verdicts = [place(request, cards) for cards in usable]
    # The machine with most of the cards says it best.
    nearest = max((each for each in verdicts if isinstance(each, NoRoom)), key=_nearness, default=None)
    if nearest is None or not all(isinstance(each, NoRoom) and each.never for each in verdicts):
        return ""
    return why_no_room(nearest)


def _nearness(no_room: NoRoom) -> tuple[int, int]:
    return no_room.fitting, max((shortfall.free for shortfall in no_room.shortfalls), default=0)
