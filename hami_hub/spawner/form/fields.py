"""The names of the form's fields, and reading them back.  They are KubeSpawner's, so that scripts know them already.

What the values come to is judged by `hami_hub.core.profiles.choose`, which REST requests pass too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PROFILE = "profile"
AMOUNTS = ("vram", "cores")
GROUP = "group"
# Longer than any valid value; what is cut off is refused all the same, and never stored.
LONGEST = 256


def amount_field(profile: str, amount: str) -> str:
    """The name of a profile's field for `amount`, one of `AMOUNTS`."""
    return f"profile-option-{profile}--{amount}"


def parse_form(formdata: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The options that a posted form names: "profile", "vram", "cores" and "group", if they were filled in for it.

    Never raises, whatever was posted: fields of other profiles and unknown ones are ignored, of a repeated field the
    first counts, and without a profile there are no options at all.
    """
    profile = first(formdata, PROFILE)
    if not profile:
        return {}
    options = {PROFILE: profile}
    for amount in AMOUNTS:
        value = first(formdata, amount_field(profile, amount))
        if value:
            options[amount] = value
    group = first(formdata, GROUP)
    return {**options, GROUP: group} if group else options


def first(formdata: Mapping[str, Sequence[str]], field: str) -> str:
    """The text of a field; of a repeated one the first, "" of none."""
    values = formdata.get(field)
    value = values[0] if isinstance(values, (list, tuple)) and values else values
    return value.strip()[:LONGEST] if isinstance(value, str) else ""
