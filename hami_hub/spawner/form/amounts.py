"""The fields of a profile that leaves the amount open: what is preset, what may be typed, what fits now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...core.cards import CardState
from ...core.language import say
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
        least, most, fits: of VRAM, in MiB on each card: what may be typed and what starts now; None: not known.
    """

    name: str
    label: str
    value: str
    hint: str
    error: str = ""
    unit: str = ""
    numeric: bool = False
    least: Mib | None = None
    most: Mib | None = None
    fits: Mib | None = None


Machines = Sequence[Sequence[CardState]]


def amount_fields(
    profile: Profile, machines: Machines, chosen: Mapping[str, str], affordable: Mib | None = None
) -> tuple[AmountField, ...]:
    """The fields of `profile`, filled with `chosen` or with what is preset; none if its amount is fixed.

    Args:
        profile: what is offered.
        machines: the cards, those of one machine together; without any card nothing is known of them.
        chosen: what was typed the last time.
        affordable: the most VRAM on each card that would be paid for; None: there is no limit.
    """
    if profile.bounds is None:
        return ()
    request = profile.request or SliceRequest()
    usable = [
        [state for state in cards if state.card.healthy and request.wishes.allow(state.card)] for cards in machines
    ]
    known = any(map(len, machines))
    return (
        _vram_field(profile, profile.bounds, request, usable if known else None, chosen.get("vram", ""), affordable),
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
    profile: Profile,
    bounds: AmountBounds,
    request: SliceRequest,
    usable: Machines | None,
    chosen: str,
    affordable: Mib | None,
) -> AmountField:
    fits = fits_now(profile, usable or ())
    within = fits if affordable is None else min(fits or affordable, affordable)
    most = bounds.max_vram if usable is None else _most(bounds, usable)
    return AmountField(
        name=amount_field(profile.name, "vram"),
        label=say("VRAM"),
        value=chosen or _preset(request.vram, within, bounds.min_vram),
        hint=_vram_hint(bounds.min_vram, most, fits, known=usable is not None),
        error=_error(profile, "vram", chosen, usable),
        least=bounds.min_vram,
        most=most,
        fits=fits if usable is not None else None,
    )


def _most(bounds: AmountBounds, usable: Machines) -> Mib:
    biggest = max((state.card.vram for cards in usable for state in cards), default=Mib(0))
    return min(bounds.max_vram or biggest, biggest)


def _vram_hint(least: Mib, most: Mib | None, fits: Mib, *, known: bool) -> str:
    if most is None:
        return say("{least} or more.", least=format_vram(least))
    span = {"least": format_vram(least), "most": format_vram(most)}
    if not known or fits >= most:
        return say("{least} to {most}.", **span)
    if not fits:
        return say("{least} to {most}; none of it is free now.", **span)
    return say("{least} to {most}; {fits} or less fits now.", fits=format_vram(fits), **span)


def _cores_field(profile: Profile, bounds: AmountBounds, usable: Machines | None, chosen: str) -> AmountField:
    free = max((state.free_cores for cards in usable or () for state in cards), default=Percent(0))
    return AmountField(
        name=amount_field(profile.name, "cores"),
        label=say("Cores"),
        value=chosen or str((profile.request or SliceRequest()).cores),
        hint=_cores_hint(bounds.max_cores, free if usable is not None else bounds.max_cores),
        error=_error(profile, "cores", chosen, usable),
        unit="%",
        numeric=True,
    )


def _cores_hint(most: Percent, free: Percent) -> str:
    if free < most:
        return say(
            "Your share of the card's time, 0 to {most}; {free} is free now. With 0 none is kept for you.",
            most=most,
            free=free,
        )
    return say("Your share of the card's time, 0 to {most}. With 0 none is kept for you.", most=most)


def _preset(preset: Mib | None, fits: Mib, least: Mib) -> str:
    """The profile's own preset, or a smaller round amount if only that fits now and is paid for."""
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
