"""The spawn form: what a person sees and picks from before a server starts.

`render_form` makes the part between JupyterHub's heading and its Start button, `parse_form` reads what comes back.
It decides nothing: which profiles can start is worked out by `hami_hub.core.offers`, what is typed is judged by
`hami_hub.core.profiles.choose`, and the spawner calls all three.
"""

from __future__ import annotations

from .fields import parse_form
from .render import render_form
from .view import FormContext

__all__ = ["FormContext", "parse_form", "render_form"]
