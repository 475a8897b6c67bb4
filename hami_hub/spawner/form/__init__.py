"""The spawn form: what a person sees and picks from before a server starts.

`render_form` makes the part between JupyterHub's heading and its Start button, `parse_form` reads what comes back.
`read_link` reads the links that pick or start, `waiting_view` is what is seen while the server starts.  It decides
nothing: which profiles can start is worked out by `hami_hub.core.offers`, who pays by `hami_hub.core.budgets`, what is
typed is judged by `hami_hub.core.profiles.choose`, and the spawner calls them all.
"""

from __future__ import annotations

from .budgets import Bill, BudgetLine, Use, bills, budget_lines
from .fields import parse_form
from .links import Link, ShowForm, read_link
from .render import render_form
from .view import FormContext
from .waiting import WaitingView, waiting_view

__all__ = [
    "Bill",
    "BudgetLine",
    "FormContext",
    "Link",
    "ShowForm",
    "Use",
    "WaitingView",
    "bills",
    "budget_lines",
    "parse_form",
    "read_link",
    "render_form",
    "waiting_view",
]
