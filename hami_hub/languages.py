"""The languages that people are spoken to in besides English, and which of them a person reads.

One catalog for each lies in `locale`, as gettext has them; what is said is made by `hami_hub.core.language`.
"""

from __future__ import annotations

import gettext
import io
import logging
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from babel import Locale, UnknownLocaleError
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from .core.language import ENGLISH, Translations

LOCALES = Path(__file__).parent / "locale"
DOMAIN = "hami_hub"
# A header is as long as a browser likes; nobody reads so many languages.
_LONGEST_HEADER = 500
_TAG = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")

_log = logging.getLogger(__name__)


@cache
def languages() -> tuple[str, ...]:
    """Every language there is, English first, as gettext writes them: "en", "ja", "zh_Hans"."""
    return ENGLISH, *sorted(path.parent.parent.name for path in LOCALES.glob(f"*/LC_MESSAGES/{DOMAIN}.po"))


def catalog_path(language: str) -> Path:
    """The file of a language's sentences."""
    return LOCALES / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def html_lang(language: str) -> str:
    """`language` as the attribute `lang` of a page has it: "zh-Hans"."""
    return language.replace("_", "-")


def best_language(accept_language: str | None) -> str:
    """The first of the reader's languages that there is; English if there is none of them.

    Args:
        accept_language: the header of that name, "ja,en-US;q=0.7,en;q=0.3"; what can't be read in it is passed over.
    """
    scripts: dict[str, str | None] = {}
    for locale in _wanted(accept_language or ""):
        # Browsers add a plain zh to zh-TW: it still reads traditional characters.
        script = scripts.setdefault(locale.language, locale.script) if locale.script is None else locale.script
        scripts.setdefault(locale.language, script)
        for language in languages():
            offered = Locale.parse(language)
            if offered.language == locale.language and (None in (script, offered.script) or script == offered.script):
                return language
    return ENGLISH


@cache
def translator(language: str) -> Translations | None:
    """The sentences of `language`, for `speaking`; None: English, or a language that there isn't."""
    if language == ENGLISH or language not in languages():
        return None
    compiled = io.BytesIO()
    write_mo(compiled, read_catalog(language))
    compiled.seek(0)
    translations = gettext.GNUTranslations(compiled)
    translations.add_fallback(_Missing(language))
    return translations


def read_catalog(language: str) -> Catalog:
    """The sentences of `language` as they stand in its file."""
    with catalog_path(language).open("rb") as file:
        return read_po(file, locale=language, domain=DOMAIN)


class _Missing(gettext.NullTranslations):
    """What a catalog lacks is said in English, and told once to those who can add it."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language
        self._told: set[str] = set()

    def gettext(self, message: str) -> str:
        self._tell(message)
        return message

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        self._tell(msgid1)
        return msgid1 if n == 1 else msgid2

    def _tell(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            _log.warning("The language %s has no words for %r.", self._language, message)


def _wanted(header: str) -> Iterator[Locale]:
    """The languages that a header names, the most wanted first."""
    weighed = []
    for part in header[:_LONGEST_HEADER].split(","):
        tag, _, weight = (piece.strip() for piece in part.partition(";"))
        quality = _quality(weight)
        if _TAG.fullmatch(tag) and quality > 0:
            weighed.append((quality, tag))
    for _, tag in sorted(weighed, key=lambda each: -each[0]):
        try:
            yield Locale.parse(tag, sep="-")
        except (UnknownLocaleError, ValueError):
            continue


def _quality(parameter: str) -> float:
    name, _, value = parameter.partition("=")
    if name.strip() != "q":
        return 1.0
    return float(value) if re.fullmatch(r" *[01](\.[0-9]{0,3})? *", value) else 0.0
