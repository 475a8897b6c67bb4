"""Tutorials as steps: what a page of docs/tutorials says is to be done and seen, read from its Markdown.

What is to be typed stands in fenced blocks, which are run as they stand:

- `sh`: in one terminal, one after the other.  After a paragraph that ends with "in a terminal of its own:" the command
  goes on until the page's end; after one that ends with "fails:" it has to fail.  What `read` asks for is pasted.
- `text` after it: lines that it prints, in this order; `…` stands for anything.

What is to be done in a browser stands in numbered lists, in sentences of `SENTENCES` and no others: bold is a control's
visible name, quotes are text that is typed, or is to be seen.  "As **alice**:" before a list says whose browser it is.
A picture in a list is of what is seen at that moment.  Everything else is for the reader.

Reads only; `performer` does it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace


class TutorialError(ValueError):
    """A page says something that nobody could do.  With the line's number."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do; `line` is where the page says so."""

    line: int


@dataclass(frozen=True, slots=True)
class Run(Step):
    """Run `code` in the terminal and see `prints`; in the background it goes on to the page's end."""

    code: str
    prints: tuple[str, ...] = ()
    background: bool = False
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Become(Step):
    """Go to the browser of somebody."""

    person: str


@dataclass(frozen=True, slots=True)
class Act(Step):
    """Do, or see, something in the browser; `what` is a key of `SENTENCES`, `names` and `texts` what stands in it."""

    what: str
    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Picture(Step):
    """Keep a picture of what is seen."""

    file: str


_NAME, _TEXT = r"\*\*([^*]+)\*\*", r"“([^“”]+)”"
# In quotes is what is typed or seen, in bold what controls are called.
SENTENCES = {
    "open": re.compile(r"Open <(\S+)>"),
    "type": re.compile(rf"Type {_TEXT} into {_NAME}"),
    "password": re.compile(rf"Type the password into {_NAME}"),
    "empty": re.compile(rf"Empty {_NAME}"),
    "press": re.compile(rf"Press {_NAME}(?: in the line of {_NAME})?"),
    "double-click": re.compile(rf"Double-click {_NAME}"),
    "menu": re.compile(rf"Choose {_NAME} from the menu {_NAME}"),
    "pick": re.compile(rf"Pick {_NAME}"),
    "see": re.compile(rf"You see {_TEXT}(?:(?:,| and|, and) {_TEXT})*"),
    "see-in-line": re.compile(rf"In the line of {_NAME} you see {_TEXT}"),
    "see-no-more": re.compile(rf"You don't see {_TEXT} any more"),
    "can-not-pick": re.compile(rf"{_NAME} can't be picked"),
    "property": re.compile(rf"Write the property {_TEXT} with the value {_TEXT}"),
    "copy": re.compile(rf"Copy what stands under {_TEXT}"),
}
_FENCE = re.compile(r"^(\s*)```(\w*)\s*$")
_ITEM = re.compile(r"^\d+\. +(.*)$")
_PERSON = re.compile(r"^As \*\*(\w+)\*\*:$")
_PICTURE = re.compile(r"!\[[^\]]*\]\((?:\.\./)*images/([\w.-]+)\)")
_SENTENCE = re.compile(r"(?:\*\*.+?\*\*|“.+?”|<\S+>|[^.])+\.")
_BACKGROUND, _FAILS = "in a terminal of its own:", "fails:"


def read(page: str) -> list[Step]:
    """The steps of a page, in order.

    Raises:
        TutorialError: a step is none of the grammar's.
    """
    steps: list[Step] = []
    before = ""
    lines = list(enumerate(page.splitlines(), 1))
    while lines:
        number, line = lines.pop(0)
        if fence := _FENCE.match(line):
            _take_block(steps, number, fence[2], _fenced(number, lines), before.lower())
        elif person := _PERSON.match(line):
            steps.append(Become(number, person[1]))
        elif item := _ITEM.match(line):
            steps.extend(_item(number, " ".join([item[1], *_indented(lines)])))
        before = line.rstrip() or before
    return steps


def _fenced(number: int, lines: list[tuple[int, str]]) -> str:
    block = []
    while lines:
        _, line = lines.pop(0)
        if line.strip() == "```":
            return "\n".join(block) + "\n"
        block.append(line)
    raise TutorialError(f"Line {number}: the block has no end.")


def _take_block(steps: list[Step], number: int, language: str, block: str, before: str) -> None:
    if language == "text":
        last = steps[-1] if steps else None
        if not isinstance(last, Run) or last.prints:
            raise TutorialError(f"Line {number}: nothing was run that could print this.")
        steps[-1] = replace(last, prints=tuple(block.splitlines()))
    elif language == "sh":
        steps.append(Run(number, block, background=before.endswith(_BACKGROUND), fails=before.endswith(_FAILS)))
    else:
        raise TutorialError(f"Line {number}: a block is sh or text, and not {language or 'without a language'}.")


def _indented(lines: list[tuple[int, str]]) -> Iterator[str]:
    """What belongs to an item: further lines that are indented."""
    while lines and lines[0][1].startswith("   ") and not _FENCE.match(lines[0][1]):
        yield lines.pop(0)[1].strip()


def _item(number: int, text: str) -> Iterator[Step]:
    pictures = [Picture(number, found[1]) for found in _PICTURE.finditer(text)]
    said = _PICTURE.sub("", text)
    for sentence in _SENTENCE.findall(said):
        yield _act(number, sentence.strip().removesuffix("."))
    if rest := _SENTENCE.sub("", said).strip():
        raise TutorialError(f"Line {number}: “{rest}” has no full stop.")
    yield from pictures


def _act(number: int, sentence: str) -> Act:
    for what, pattern in SENTENCES.items():
        if pattern.fullmatch(sentence):
            if what == "open":
                return Act(number, what, texts=(sentence.removeprefix("Open <").removesuffix(">"),))
            return Act(number, what, tuple(re.findall(_NAME, sentence)), tuple(re.findall(_TEXT, sentence)))
    raise TutorialError(
        f"Line {number}: “{sentence}.” is no step that could be done. Steps are: {', '.join(SENTENCES)}."
    )
