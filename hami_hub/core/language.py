"""The language that people are spoken to in: `say` gives a sentence in the one that holds here and now.

English templates are the keys, so the code reads as it speaks; `hami_hub.languages` loads the other languages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ENGLISH = "en"

Translate = Callable[[str], str]

_translate: ContextVar[Translate | None] = ContextVar("translate", default=None)


@contextmanager
def speaking(translate: Translate | None) -> Iterator[None]:
    """Have what is said inside pass `translate`, which gives a template for an English one; None: English."""
    token = _translate.set(translate)
    try:
        yield
    finally:
        _translate.reset(token)


def say(template: str, /, **values: object) -> str:
    """`template`, a whole sentence with {names}, in the language that holds here, filled in with `values`."""
    translate = _translate.get()
    return (translate(template) if translate is not None else template).format_map(values)


def count(n: int, one: str, many: str, /, **values: object) -> str:
    """`one` or `many`, filled in with `n` too."""
    return say(one if n == 1 else many, n=n, **values)
