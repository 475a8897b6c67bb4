"""Hypothesis without a deadline: how fast something was is no verdict.  In CI it tries the same examples every time, so
that a change is judged by what it changes; at home it goes on looking.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("untimed", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("untimed")
