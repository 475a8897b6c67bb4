"""KubeSpawner with a `profile_list` that can be relied upon.

An admin who has one keeps it, form and all.  What it lacks is added: choices are judged strictly and refused in words,
what one start overrides is gone before the next, and nobody gets a GPU by naming no profile.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kubespawner import KubeSpawner

from ...core.language import say
from ...core.names import ResourceNames
from ...core.profiles import ChoiceError, not_options

_LONGEST = 64


class StrictProfileList(KubeSpawner):  # type: ignore[misc]
    """What a start overrides is undone, and what is chosen is judged."""

    user_options: Any  # Spawner's

    _before_overrides: dict[str, Any] | None = None

    def undo_overrides(self) -> None:
        """Set back what the last start's profile has changed."""
        for name, value in (self._before_overrides or {}).items():
            setattr(self, name, value)
        self._before_overrides = None

    def clear_state(self) -> None:
        """Forget the server, and its profile's overrides."""
        self.undo_overrides()
        super().clear_state()

    async def load_user_options(self) -> None:
        """Apply the profile of `profile_list` that was chosen.

        Raises:
            ChoiceError: it can't be.
        """
        self.undo_overrides()
        try:
            await super().load_user_options()
        except ChoiceError:
            raise
        except ValueError as error:
            raise ChoiceError(str(error), reason="bad-option") from None

    def _apply_overrides(self, spawner_override: dict[str, Any]) -> None:
        kept = self._before_overrides = self._before_overrides or {}
        for name in spawner_override:
            if name not in kept:
                # Merged in place: the value itself would change under us.
                kept[name] = copy.deepcopy(getattr(self, name))
        super()._apply_overrides(copy.deepcopy(spawner_override))

    def _get_initialized_profile_list(self, profile_list: Any) -> Any:
        """With a preset profile: what an admin marks, else the first that takes no GPU."""
        ours = copy.deepcopy(profile_list)
        if ours and not any(profile.get("default") for profile in ours):
            preset = next((profile for profile in ours if not _takes_gpu(profile)), ours[0])
            preset["default"] = True
        return super()._get_initialized_profile_list(ours)

    def _render_options_form(self, profile_list: Any) -> Any:
        saved = self.user_options
        try:
            self._validate_user_options(self._get_initialized_profile_list(profile_list))
        except (ChoiceError, ValueError):
            # What can't be had any more is not shown as picked.
            self.user_options = {}
        try:
            return super()._render_options_form(profile_list)
        finally:
            self.user_options = saved

    def _validate_user_options(self, profile_list: Sequence[dict[str, Any]]) -> None:
        options = self.user_options or {}
        if not isinstance(options, dict):
            raise ChoiceError(not_options(), reason="bad-option")
        if not profile_list:
            return
        slugs = [profile["slug"] for profile in profile_list]
        chosen = options.get("profile")
        if chosen and chosen not in slugs:
            raise ChoiceError(
                say(
                    "There is no profile {profile}. There are: {profiles}.",
                    profile=_shown(chosen),
                    profiles=", ".join(slugs),
                ),
                reason="unknown-profile",
            )
        profile = self._get_profile(chosen, profile_list)
        for name, option in (profile.get("profile_options") or {}).items():
            _judge(name, option, options)


def _judge(name: str, option: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    title = option.get("display_name") or name
    typed, picked = options.get(f"{name}--unlisted-choice"), options.get(name)
    if typed:
        unlisted = option.get("unlisted_choice") or {}
        if not unlisted.get("enabled"):
            raise ChoiceError(
                say("{option} can't be typed here. Pick one that is offered.", option=title), reason="bad-option"
            )
        pattern = unlisted.get("validation_regex")
        if not isinstance(typed, str) or (pattern and not re.fullmatch(pattern, typed)):
            hint = unlisted.get("validation_message") or say("It has to look like {pattern}.", pattern=pattern)
            raise ChoiceError(
                say("{value} is no {option}. {hint}", value=_shown(typed), option=title, hint=hint), reason="bad-option"
            )
        return
    choices = option.get("choices") or {}
    if picked and (not isinstance(picked, str) or picked not in choices):
        raise ChoiceError(
            say(
                "{value} is not a choice of {option}. Choices are: {choices}.",
                value=_shown(picked),
                option=title,
                choices=", ".join(choices),
            ),
            reason="bad-option",
        )


def _takes_gpu(profile: Mapping[str, Any]) -> bool:
    """Whether a profile that nobody has chosen would take a GPU, of whatever make."""
    overrides = [profile.get("kubespawner_override")]
    for option in (profile.get("profile_options") or {}).values():
        choices = list((option.get("choices") or {}).values())
        preset = [choice for choice in choices if choice.get("default")] or choices[:1]
        overrides += [choice.get("kubespawner_override") for choice in preset]
    known = ResourceNames().count
    for override in overrides:
        limits = (override or {}).get("extra_resource_limits") or {}
        if isinstance(limits, Mapping) and any("gpu" in name or name == known for name in limits):
            return True
    return False


def _shown(value: object) -> str:
    text = str(value)
    return f'"{text if len(text) <= _LONGEST else text[:_LONGEST] + "…"}"'
