"""The language that people are spoken to in: `say` gives a sentence in the one that holds here and now.

English templates are the keys, so the code reads as it speaks, and a sentence that no catalog has is said in English.
`hami_hub.languages` loads the catalogs and knows which language a person reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import reduce
from typing import Protocol

ENGLISH = "en"


class Translations(Protocol):
    """Templates of one language by their English ones, as gettext has them."""

    def gettext(self, message: str, /) -> str:
        """The template for `message`."""

    def ngettext(self, msgid1: str, msgid2: str, n: int, /) -> str:
        """The template of those for `msgid1` (one) and `msgid2` (many) that is right for `n`."""


_translations: ContextVar[Translations | None] = ContextVar("translations", default=None)


class Said(str):
    """A sentence in another language than English, which knows what it is in English: for logs and journals."""

    __slots__ = ("english",)
    english: str

    def __new__(cls, text: str, english: str) -> Said:
        """`text`, which says `english`."""
        said = super().__new__(cls, text)
        said.english = english
        return said

    def __str__(self) -> str:
        """Itself, so that the text of an error still knows."""
        return self


@dataclass(frozen=True)
class Sentence:
    """What is to be said to several people, each in their language.  `str` says it."""

    template: str
    values: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        """It, in the language that holds here."""
        return say(self.template, **{name: str(value) for name, value in self.values.items()})


@contextmanager
def speaking(translations: Translations | None) -> Iterator[None]:
    """Have what is said inside be in the language of `translations`; None: English.

    It holds for tasks that are begun inside too.  Not for use around a `yield` of a generator: whoever goes through it
    would speak that language.
    """
    token = _translations.set(translations)
    try:
        yield
    finally:
        _translations.reset(token)


def say(template: str, /, **values: object) -> str:
    """`template`, a whole sentence with {names}, in the language that holds here, filled in with `values`."""
    translations = _translations.get()
    return _filled(template, translations.gettext(template) if translations else None, values)


def count(n: int, one: str, many: str, /, **values: object) -> str:
    """`one` or `many`, filled in with `n` too."""
    translations = _translations.get()
    template = translations.ngettext(one, many, n) if translations else None
    return _filled(one if n == 1 else many, template, {"n": n, **values})


def later(template: str, /) -> str:
    """`template`, which is said elsewhere: marks it for the catalogs."""
    return template


def either(one: str, many: str, /) -> tuple[str, str]:
    """`one` and `many`, which are counted elsewhere: marks them for the catalogs."""
    return one, many


def chained(link: str, parts: Iterable[str]) -> str:
    """All `parts`, two by two as `link` has it: a template with {a} and {b}.  "" of none."""
    return reduce(lambda a, b: say(link, a=a, b=b), parts) if (parts := list(parts)) else ""


def capital(text: str) -> str:
    """`text` as the beginning of a sentence."""
    upper = text[:1].upper() + text[1:]
    return Said(upper, capital(text.english)) if isinstance(text, Said) else upper


def in_english(text: str) -> str:
    """What `say` would have given in English: for whoever isn't the person that `text` was said to."""
    return text.english if isinstance(text, Said) else text


def _filled(english: str, template: str | None, values: dict[str, object]) -> str:
    if not english:
        return ""  # what gettext has for it is the catalog's own header
    plain = {name: in_english(value) if isinstance(value, str) else value for name, value in values.items()}
    text = english.format_map(plain)
    return text if template is None else Said(template.format_map(values), text)
