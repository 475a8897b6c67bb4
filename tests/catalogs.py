"""Keeps the catalogs in `hami_hub/locale` complete: `make catalogs` brings in what the code says and drops what it says
no more; `make catalogs ARGS=fr` begins a language.  What a sentence is in another language, people write.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path

from babel import Locale, UnknownLocaleError
from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import write_po

from hami_hub.core.language import ENGLISH
from hami_hub.languages import DOMAIN, catalog_path, languages, read_catalog

PACKAGE = Path(__file__).parents[1] / "hami_hub"
# The functions of `hami_hub.core.language`, and which of their arguments are templates.
KEYWORDS = {"say": None, "later": None, "count": (2, 3), "either": (1, 2)}
METHODS = [("**.py", "python"), ("**.html", "jinja2")]
ABOUT = "What HAMi Hub says to people.  `make catalogs` writes all but the translations: docs/translations.md."


def said() -> Catalog:
    """Everything that the code says, untranslated."""
    catalog = Catalog(domain=DOMAIN)
    with contextlib.redirect_stderr(io.StringIO()):  # warnings of f-strings among the values, which are no templates
        for file, _, message, _, _ in extract_from_dir(PACKAGE, METHODS, keywords=KEYWORDS):
            catalog.add(message, locations=[(f"hami_hub/{file}", 0)])
    return catalog


def untranslated(catalog: Catalog) -> Iterator[Message]:
    """What lacks words, or has some that may be wrong."""
    for message in catalog:
        words = message.string if isinstance(message.string, tuple) else (message.string,)
        if message.id and (message.fuzzy or not all(words)):
            yield message


def update(language: str) -> Catalog:
    """Bring the file of `language` up to what the code says, and return what it holds then."""
    new = not catalog_path(language).exists()
    catalog = Catalog(locale=language, domain=DOMAIN) if new else read_catalog(language)
    template = said()
    template.creation_date = catalog.creation_date  # else the file changes each time
    catalog.update(template, no_fuzzy_matching=True)
    catalog.obsolete.clear()
    catalog.fuzzy = False
    catalog.project, catalog.version, catalog.header_comment = "HAMi Hub", "", f"# {ABOUT}"
    catalog.msgid_bugs_address, catalog.last_translator, catalog.language_team = "", "", language
    path = catalog_path(language)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        write_po(file, catalog, width=100, sort_by_file=True, include_lineno=False)
    return catalog


def main(names: list[str]) -> int:
    """Update those languages, or all that there are, and say what they lack."""
    lacking = 0
    for language in names or languages():
        if language == ENGLISH:
            continue
        try:
            Locale.parse(language)
        except (UnknownLocaleError, ValueError):
            print(f"{language} is not a language. Write it like fr or zh_Hant.", file=sys.stderr)
            return 2
        catalog = update(language)
        missing = list(untranslated(catalog))
        lacking += len(missing)
        print(f"{language}: {len(catalog)} sentences, {len(missing)} of them lack a translation")
        for message in missing:
            print(f"    {message.id if isinstance(message.id, str) else message.id[0]}")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
