"""Profiles: what an admin offers, and what a person's choice from it comes to.

Profiles are declared once, as plain data; the form, the REST API and the docs all read them from here.  Every choice
passes `choose`, whichever way it came in: a form can be bypassed, this can't.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NewType

from .language import in_english, say
from .shown import quoted
from .slices import CardPolicy, CardWishes, CorePolicy, Priority, SliceRequest
from .times import parse_time
from .units import CARD_VRAM, MAX_VRAM, AmountError, Mib, Percent, format_vram, parse_percent, parse_vram

ProfileName = NewType("ProfileName", str)

WHOLE = "whole"
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_KEYS = {
    "name", "title", "description", "gpu", "cards", "vram", "cores", "min_vram", "max_vram", "max_cores",
    "priority", "policy", "card_policy", "models", "groups", "max_lifetime",
}  # fmt: skip
_OPTIONS = {"profile", "vram", "cores", "group"}


class ProfileError(ValueError):
    """A profile that is declared wrongly.  The message names the profile, the key and what would be right."""


class ChoiceError(ValueError):
    """A choice that can't be granted.  The message is for the person who chose.

    Attributes:
        reason: a short fixed word, used as a metric's label.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class AmountBounds:
    """What may be typed where a profile leaves the amount open.  `max_vram` None: as much as a card has."""

    min_vram: Mib = Mib(1)
    max_vram: Mib | None = None
    max_cores: Percent = Percent(100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One line of the spawn form.

    Attributes:
        name: key in forms and in the REST API.
        request: the slice; None for a server without a GPU.
        bounds: set if the person chooses the amount; then `request` holds what is preset.
        groups: JupyterHub groups that may use it; empty: everybody.
        max_lifetime: seconds after which its server is stopped; None: as the quota says.
    """

    name: ProfileName
    title: str
    description: str = ""
    request: SliceRequest | None = None
    bounds: AmountBounds | None = None
    groups: frozenset[str] = frozenset()
    max_lifetime: int | None = None

    def open_to(self, groups: Collection[str]) -> bool:
        """Whether a member of `groups` may use it.  Upper and lower case are the same."""
        return not self.groups or not self.groups.isdisjoint(group.casefold() for group in groups)


@dataclass(frozen=True, slots=True)
class Choice:
    """A person's valid choice: the profile, the slice that it comes to (None: no GPU), and who is to pay.

    `group` is as it was typed; "" leaves it to the hub.  Whether it may pay is `budgets`' to say.
    """

    profile: Profile
    request: SliceRequest | None
    group: str = ""


def default_profiles() -> tuple[Profile, ...]:
    """What is offered when an admin declares nothing: sizes that make sense on a card of 15 GiB and more.

    Titles are in the language that holds.
    """
    return parse_profiles(
        [
            {"name": "cpu", "title": say("CPU only"), "description": say("No GPU. Starts at once."), "gpu": False},
            {"name": "gpu-2g", "title": "2 GiB", "description": say("Small experiments."), "vram": "2 GiB"},
            {"name": "gpu-4g", "title": "4 GiB · 25 %", "description": say("A quarter of the card's time."),
             "vram": "4 GiB", "cores": 25},
            {"name": "gpu-8g", "title": "8 GiB · 50 %", "description": say("Half of the card's time."),
             "vram": "8 GiB", "cores": 50},
            {"name": "gpu-whole", "title": say("Whole card"), "description": say("The card for you alone."),
             "vram": WHOLE},
            {"name": "gpu-other", "title": say("Another amount"), "description": say("You say how much."),
             "vram": "6 GiB", "min_vram": "256 MiB"},
        ]
    )  # fmt: skip


def parse_profiles(raw: Sequence[Mapping[str, Any]]) -> tuple[Profile, ...]:
    """The profiles that plain data declares.

    Raises:
        ProfileError: a key, value or name that is wrong; nothing is silently dropped.
    """
    profiles = tuple(_profile(entry, position) for position, entry in enumerate(raw, 1))
    if not profiles:
        raise ProfileError("The list of profiles is empty. Declare at least one, e.g. {'name': 'cpu', 'gpu': False}.")
    seen: set[str] = set()
    for profile in profiles:
        if profile.name in seen:
            raise ProfileError(f"Two profiles are named {profile.name!r}. Give each its own name.")
        seen.add(profile.name)
    return profiles


def choose(profiles: Iterable[Profile], options: Mapping[str, Any], groups: Collection[str] = ()) -> Choice:
    """What `options` ({"profile": …, "vram": …, "cores": …, "group": …}) come to for a member of `groups`.

    No profile named: the first that is open to the person.

    Raises:
        ChoiceError: unknown or closed profile, unknown option, bad amount.
    """
    offered = [profile for profile in profiles if profile.open_to(groups)]
    unknown = sorted(str(key) for key in options if key not in _OPTIONS)
    if unknown:
        raise ChoiceError(
            say(
                "{option} is not an option of a server. Options are profile, vram, cores and group.",
                option=quoted(unknown[0]),
            ),
            reason="bad-option",
        )
    profile = _chosen(list(profiles), offered, options.get("profile"))
    group = options.get("group")
    if not isinstance(group, (str, type(None))):
        raise ChoiceError(
            say("{group} is no name of a group. Write one, or leave it out.", group=quoted(group)), reason="bad-option"
        )
    group = (group or "").strip()
    if profile.bounds is None:
        extra = [key for key in ("vram", "cores") if options.get(key) not in (None, "")]
        if extra:
            raise ChoiceError(
                say(
                    "{profile} has a fixed amount of {option}. Leave {option} out, or pick another profile.",
                    profile=profile.title,
                    option=extra[0],
                ),
                reason="bad-option",
            )
        return Choice(profile, profile.request, group)
    return Choice(profile, _free_amount(profile, profile.bounds, options), group)


def not_options() -> str:
    """What to tell somebody whose options are no dictionary."""
    return say("The options of a server are a dictionary like {example}.", example='{"profile": "cpu"}')


def _chosen(profiles: list[Profile], offered: list[Profile], name: object) -> Profile:
    if not offered:
        raise ChoiceError(
            say("No profile is open to you. Ask an admin to add you to a group that has one."), reason="not-allowed"
        )
    if name is None or name == "":
        return offered[0]
    for profile in offered:
        if profile.name == name:
            return profile
    names = ", ".join(profile.name for profile in offered)
    if any(profile.name == name for profile in profiles):
        raise ChoiceError(
            say(
                "The profile {profile} is not open to you. Yours are: {profiles}.", profile=quoted(name), profiles=names
            ),
            reason="not-allowed",
        )
    raise ChoiceError(
        say("There is no profile {profile}. There are: {profiles}.", profile=quoted(name), profiles=names),
        reason="unknown-profile",
    )


def _free_amount(profile: Profile, bounds: AmountBounds, options: Mapping[str, Any]) -> SliceRequest:
    preset = profile.request or SliceRequest()
    try:
        vram = preset.vram if options.get("vram") in (None, "") else parse_vram(options["vram"])
        cores = preset.cores if options.get("cores") in (None, "") else parse_percent(options["cores"])
    except AmountError as error:
        raise ChoiceError(str(error), reason="bad-amount") from None
    if vram is None:
        raise ChoiceError(
            say("The profile {profile} needs an amount. Write it like 4 GiB.", profile=profile.title),
            reason="bad-amount",
        )
    if vram < bounds.min_vram:
        raise ChoiceError(
            say(
                "{amount} is less than this profile allows. Ask for {least} or more.",
                amount=format_vram(vram),
                least=format_vram(bounds.min_vram),
            ),
            reason="bad-amount",
        )
    if bounds.max_vram is not None and vram > bounds.max_vram:
        raise ChoiceError(
            say(
                "{amount} is more than this profile allows. Ask for {most} or less.",
                amount=format_vram(vram),
                most=format_vram(bounds.max_vram),
            ),
            reason="bad-amount",
        )
    if cores > bounds.max_cores:
        raise ChoiceError(
            say(
                "{amount} is more than this profile allows. Ask for {most} or less.",
                amount=f"{cores} %",
                most=f"{bounds.max_cores} %",
            ),
            reason="bad-amount",
        )
    return SliceRequest(
        cards=preset.cards,
        vram=vram,
        cores=cores,
        priority=preset.priority,
        policy=preset.policy,
        card_policy=preset.card_policy,
        wishes=preset.wishes,
    )


def _profile(entry: Mapping[str, Any], position: int) -> Profile:
    if not isinstance(entry, Mapping):
        raise ProfileError(f"Profile {position} is {entry!r}. Write it as a dictionary with at least a name.")
    name = entry.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ProfileError(f"Profile {position} has the name {name!r}. Use lower-case letters, digits and dashes.")
    unknown = sorted(set(map(str, entry)) - _KEYS)
    if unknown:
        raise ProfileError(f"Profile {name!r} has an unknown key {unknown[0]!r}. Keys are: {', '.join(sorted(_KEYS))}.")
    groups = entry.get("groups", ())
    if isinstance(groups, str) or not all(isinstance(group, str) for group in groups):
        raise ProfileError(f"Profile {name!r}: groups is {groups!r}. Write a list of group names.")
    try:
        request = _request(entry) if entry.get("gpu", True) else None
        bounds = _bounds(entry)
        lifetime = _lifetime(entry)
    except (AmountError, ValueError) as error:
        # whoever comes first has the settings read, and the log is an admin's
        raise ProfileError(f"Profile {name!r}: {in_english(str(error))}") from None
    return Profile(
        name=ProfileName(name),
        title=str(entry.get("title", name)),
        description=str(entry.get("description", "")),
        request=request,
        bounds=bounds if request is not None else None,
        groups=frozenset(group.casefold() for group in groups),
        max_lifetime=lifetime,
    )


def _request(entry: Mapping[str, Any]) -> SliceRequest:
    vram = entry.get("vram", WHOLE)
    percent = isinstance(vram, str) and vram.strip().endswith("%")
    models = entry.get("models", ())
    return SliceRequest(
        cards=int(entry.get("cards", 1)),
        vram=None if percent or vram == WHOLE else parse_vram(vram),
        vram_percent=parse_percent(vram, of=CARD_VRAM) if percent else None,
        cores=parse_percent(entry.get("cores", 0)),
        priority=Priority(int(entry.get("priority", Priority.LOW))),
        policy=CorePolicy(entry.get("policy", CorePolicy.DEFAULT)),
        card_policy=CardPolicy(entry.get("card_policy", CardPolicy.FGD)),
        wishes=CardWishes(models=(models,) if isinstance(models, str) else tuple(models)),
    )


def _lifetime(entry: Mapping[str, Any]) -> int | None:
    if "max_lifetime" not in entry:
        return None
    seconds = parse_time(str(entry["max_lifetime"]))
    if seconds is None:
        raise AmountError(f"max_lifetime is {entry['max_lifetime']!r}. Write it like 8h, 90m or 1d.")
    return seconds


def _bounds(entry: Mapping[str, Any]) -> AmountBounds | None:
    if not {"min_vram", "max_vram", "max_cores"} & set(entry):
        return None
    bounds = AmountBounds(
        min_vram=parse_vram(entry.get("min_vram", 1)),
        max_vram=parse_vram(entry["max_vram"]) if "max_vram" in entry else None,
        max_cores=parse_percent(entry.get("max_cores", 100)),
    )
    if bounds.min_vram > (bounds.max_vram or MAX_VRAM):
        raise AmountError("min_vram is more than max_vram. Swap them.")
    return bounds
