"""The fields of a profile that leaves the amount open: what is preset, what may be typed, what fits now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...core.cards import CardState
from ...core.messages import largest_fit, why_no_room
from ...core.placement import NoRoom, place
from ...core.profiles import AmountBounds, ChoiceError, Profile, choose
from ...core.slices import SliceRequest
from ...core.units import MIB_PER_GIB, Mib, format_vram
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


def amount_fields(profile: Profile, cards: Sequence[CardState], chosen: Mapping[str, str]) -> tuple[AmountField, ...]:
    """The fields of `profile`, filled with `chosen` or with what is preset; none if its amount is fixed."""
    if profile.bounds is None:
        return ()
    request = profile.request or SliceRequest()
    usable = [state for state in cards if state.card.healthy and request.wishes.allow(state.card)]
    return (
        _vram_field(profile, profile.bounds, request, usable, chosen.get("vram", "")),
        _cores_field(profile, profile.bounds, request, usable, chosen.get("cores", "")),
    )


def fits_now(profile: Profile, cards: Sequence[CardState]) -> Mib:
    """The most VRAM on each card that starts at once where the amount is free; 0 if nothing that is allowed does."""
    if profile.bounds is None:
        return Mib(0)
    request = profile.request or SliceRequest()
    fits = sorted((largest_fit((state,), request) for state in cards), reverse=True)
    fit = fits[request.cards - 1] if len(fits) >= request.cards else Mib(0)
    return min(fit, profile.bounds.max_vram or fit) if fit >= profile.bounds.min_vram else Mib(0)


def _vram_field(
    profile: Profile, bounds: AmountBounds, request: SliceRequest, usable: Sequence[CardState], chosen: str
) -> AmountField:
    fits = fits_now(profile, usable)
    biggest = max((state.card.vram for state in usable), default=Mib(0))
    most = min(bounds.max_vram or biggest, biggest)
    now = f"; {format_vram(fits)} or less fits now" if fits else "; none of it is free now"
    return AmountField(
        name=amount_field(profile.name, "vram"),
        label="VRAM",
        value=chosen or _preset(request.vram, fits, bounds.min_vram),
        hint=f"{format_vram(bounds.min_vram)} to {format_vram(most)}{now if fits < most else ''}.",
        error=_error(profile, "vram", chosen, usable),
    )


def _cores_field(
    profile: Profile, bounds: AmountBounds, request: SliceRequest, usable: Sequence[CardState], chosen: str
) -> AmountField:
    free = max((state.free_cores for state in usable), default=0)
    now = f"; {free} is free now" if free < bounds.max_cores else ""
    return AmountField(
        name=amount_field(profile.name, "cores"),
        label="Cores",
        value=chosen or str(request.cores),
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


def _error(profile: Profile, amount: str, value: str, usable: Sequence[CardState]) -> str:
    """Why `value` can't be had here, ever; a value that has to wait is no error."""
    if not value:
        return ""
    try:
        request = choose((profile,), {amount: value}, profile.groups).request
    except ChoiceError as error:
        return str(error)
    verdict = place(request, usable) if request is not None else None
    return why_no_room(verdict) if isinstance(verdict, NoRoom) and verdict.never else ""
