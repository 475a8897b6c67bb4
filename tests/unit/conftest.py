"""Hypothesis without a deadline: how fast something was is no verdict."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
