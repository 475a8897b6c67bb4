"""What the tests do with the spawn form, and what they read there."""

from __future__ import annotations

import json
import re


def radio(page, name: str):
    return page.get_by_role("radio", name=name, exact=True)


def line(page, profile: str):
    """The line of a profile."""
    return page.locator(".hami-profile", has=radio(page, profile))


def pick(page, name: str) -> None:
    """Pick a profile or a group."""
    radio(page, name).check()


def type_amount(page, vram: str) -> None:
    """Pick the profile of another amount, and type one."""
    pick(page, "Another amount")
    page.get_by_label("VRAM").fill(vram)


def start(page) -> dict[str, str]:
    """Press Start on the form hub's form: what the hub understood."""
    page.get_by_role("button", name="Start").click()
    return picked(page)


def picked(page) -> dict[str, str]:
    """What the form hub's refusal says was picked."""
    return json.loads(re.search(r"\{.*\}", page.locator(".spawn-error-msg").inner_text())[0])
