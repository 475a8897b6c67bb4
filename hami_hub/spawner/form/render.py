"""From a form's view to HTML.  Everything that an admin or a user wrote is escaped here, once."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from .view import FormContext, form_view

_CODE = re.compile(r"`([^`]+)`")


def render_form(context: FormContext) -> str:
    """The form's HTML, for `Spawner.options_form`; JupyterHub adds the Start button and a refusal's text."""
    return _template().render(form=form_view(context))


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_escape,
    )
    environment.filters["prose"] = _prose
    return environment.get_template("form.html")


def _escape(value: object) -> Markup:
    """Safe as HTML, and also if a hub renders the form as a template once more, as KubeSpawner's does."""
    if isinstance(value, Markup):
        return value
    return Markup(str(escape(value)).replace("{", "&#123;").replace("}", "&#125;"))  # noqa: S704


def _prose(text: str) -> Markup:
    """A sentence in which `…` marks a command."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(_escape(text))))  # noqa: S704
