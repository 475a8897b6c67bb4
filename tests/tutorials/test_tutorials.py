"""Each page of docs/tutorials is performed as it stands, on a demo of its own; and what the grammar makes of pages."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hami_hub.cli.demo import ports

from .grammar import Act, Become, Picture, Run, TutorialError, read
from .performer import Performer
from .terminal import Terminal, prints

PAGES = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.md"))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_tutorial_is_performed(
    page: Path, tmp_path: Path, new_page: Callable[[], Any], keep_picture: Callable[[Any, str], None]
) -> None:
    steps = read(page.read_text())
    kept = ("LANG", "LC_ALL", "HOME", "TERM")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    terminal = Terminal(tmp_path, environment)
    (port,) = ports.any_free(1)
    performer = Performer(terminal, new_page, keep_picture, port)
    try:
        for step in steps:
            try:
                performer.perform(step)
            except Exception as error:
                raise AssertionError(f"{page.name}, line {step.line}, {step}:\n{error}\n{performer.seen()}") from error
    finally:
        terminal.close()


# --- the grammar ------------------------------------------------------------------------------------------------------


def test_a_page_is_read_as_it_is_meant() -> None:
    page = """\
# A page

Start it, in a terminal of its own:

```sh
serve --port 8000
```

```text
ready … now
```

As **alice**:

1. Open <http://127.0.0.1:8000/a.b>. Type “x. y” into **Name**. Press **Go!** in the line of **4 GiB · 25 %**.
2. You see “one”, “two” and
   “three”.
   ![what is seen](../images/seen.png)

What is wrong fails:

```sh
false
```
"""
    assert read(page) == [
        Run(5, "serve --port 8000\n", ("ready … now",), background=True),
        Become(13, "alice"),
        Act(15, "open", (), ("http://127.0.0.1:8000/a.b",)),
        Act(15, "type", ("Name",), ("x. y",)),
        Act(15, "press", ("Go!", "4 GiB · 25 %")),
        Act(16, "see", (), ("one", "two", "three")),
        Picture(16, "seen.png"),
        Run(22, "false\n", fails=True),
    ]


WRONG = {
    "no step": ("1. Look around.", "Line 1: “Look around.” is no step that could be done."),
    "no full stop": ("1. Press **Go**", "Line 1: “Press **Go**” has no full stop."),
    "half a step": ("1. Press **Go** and **Stop**.", "Line 1: “Press **Go** and **Stop**.” is no step"),
    "straight quotes": ('1. You see "it".', "is no step that could be done."),
    "another language": ("```c\nint x;\n```", "Line 1: a block is sh or text, and not c."),
    "output of nothing": ("```text\nhello\n```", "Line 1: nothing was run that could print this."),
    "no end": ("```sh\ntrue\n", "Line 1: the block has no end."),
}


@pytest.mark.parametrize(("page", "text"), WRONG.values(), ids=WRONG)
def test_what_nobody_could_do_is_told_with_its_line(page: str, text: str) -> None:
    with pytest.raises(TutorialError) as told:
        read(page)
    assert text in str(told.value)


@pytest.mark.parametrize(
    ("output", "lines", "there"),
    [
        ("a\nb\nc\n", ("a", "c"), True),
        ("a\nb\nc\n", ("c", "a"), False),
        ("log in as   alice\n", ("log in as alice",), True),
        ("took 12 s\n", ("took … s",), True),
        ("took 12 s or so\n", ("took … s",), False),
        ("\x1b[1mbold\x1b[0m\n", ("bold",), True),
    ],
)
def test_output_is_compared_by_lines(output: str, lines: tuple[str, ...], there: bool) -> None:
    assert prints(output, lines) is there


def test_a_terminal_keeps_what_was_set_and_tells_what_failed(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, {"PATH": os.environ["PATH"]})
    terminal.clipboard = "pasted"
    try:
        assert terminal.run("X=1\nread -r Y\n") == ("", 0)
        assert terminal.run("echo $X $Y\npwd\n") == (f"1 pasted\n{tmp_path}\n", 0)
        assert terminal.run("false\ntrue\n") == ("", 1)
        assert terminal.run("true\n") == ("", 0)
    finally:
        terminal.close()
