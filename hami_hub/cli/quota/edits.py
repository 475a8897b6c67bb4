"""What `key=value` on a command line does to a group's properties.  Pure; what the values mean is `core.quota`'s."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from ...core.quota import KEYS, PREFIX, QuotaFault, is_quota_key, parse_quota


class EditError(ValueError):
    """An edit that is not done.  Plain sentences, one a line."""


def full_key(key: str) -> str:
    """`vram` is short for `hami.vram`."""
    return key if key.startswith(PREFIX) else PREFIX + key


def with_values(properties: Mapping[str, Any], edits: Iterable[str]) -> dict[str, Any]:
    """`properties` with each `key=value` set; those of others are kept.

    Raises:
        EditError: an edit has no value, or what it sets is written wrongly.
    """
    changed = dict(properties)
    keys = set()
    for edit in edits:
        key, sign, value = edit.partition("=")
        key = full_key(key.strip())
        if not sign or not value.strip():
            raise EditError(f"{key} has no value. Write key=value, like vram=24GiB, or remove it with unset.")
        changed[key] = value.strip()
        keys.add(key)
    wrong = [fault.text for fault in faults(changed) if fault.key in keys]
    if wrong:
        raise EditError("\n".join(wrong))
    return changed


def without(properties: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """`properties` without `keys`.

    Raises:
        EditError: one of them is not there.
    """
    changed = dict(properties)
    for key in map(full_key, keys):
        if key not in changed:
            there = ours(properties)
            near = difflib.get_close_matches(key, there, n=1)
            hint = f"Did you mean {near[0]}?" if near else f"Set are: {', '.join(there) or 'none'}."
            raise EditError(f"{key} is not set. {hint}")
        del changed[key]
    return changed


def faults(properties: Mapping[str, Any]) -> tuple[QuotaFault, ...]:
    """What is written wrongly."""
    return parse_quota(properties)[1]


def ours(properties: Mapping[str, Any]) -> list[str]:
    """The keys that are about slices, in the order in which they are documented; a misspelt one last."""
    known = {key: number for number, key in enumerate(KEYS)}
    return sorted(filter(is_quota_key, properties), key=lambda key: (known.get(key, len(known)), key))
