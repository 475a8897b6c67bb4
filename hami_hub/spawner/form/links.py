"""Links to the spawn form, /hub/spawn?opt-profile=gpu-other&opt-vram=3GiB&opt-group=ml: they start a server at once.

With `&opt-preselect=1` a link only picks: the form opens as if the person had chosen so, and they press Start.  A query
that names nothing of ours (a reload after a refusal, what a mailing list adds) shows the form as it always is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .fields import AMOUNTS, GROUP, PROFILE, first, parse_form

PRESELECT = "preselect"
_PREFIX = "opt-"
_NO = {"", "0", "no", "false", "off"}


class ShowForm(Exception):
    """Raised where a hub asks what a link's options come to, to have it show the form and no error."""

    jupyterhub_message = ""
    jupyterhub_html_message = ""

    def __init__(self) -> None:
        super().__init__("")


@dataclass(frozen=True, slots=True)
class Link:
    """What a link asks for; `starts`: without being asked once more."""

    options: dict[str, str] = field(default_factory=dict)
    starts: bool = False


def read_link(query: Mapping[str, Sequence[str]]) -> Link:
    """The link whose query is `query`.  Never raises.

    Args:
        query: as a hub hands it to `options_from_query`: JupyterHub 6 has taken the prefix away, 5 has not.
    """
    values = {str(key).removeprefix(_PREFIX): value for key, value in query.items()}
    options = parse_form(values)
    for key in (*AMOUNTS, GROUP):
        text = first(values, key)
        if text:
            options[key] = text
    only_picks = first(values, PRESELECT).casefold() not in _NO
    return Link(options, starts=PROFILE in options and not only_picks)
