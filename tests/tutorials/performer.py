"""Does what a tutorial says, as a person would: types in a terminal, clicks in browsers, looks at what they show."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from .grammar import Act, Become, Picture, Run, Step
from .terminal import Terminal, prints

PATIENCE = 150_000  # ms: JupyterLab, from Start to its first notebook, on a busy machine
WRITTEN_PORT = "8000"  # in the pages; where the demo really is, the test says
# JupyterHub's pages whose buttons do nothing before their script is there, and what says that it is.
_SCRIPTED, _LOADED = re.compile(r"/hub/(home|token)\b"), "window._jupyterhub_page_loaded"
_CONTROLS = ("button", "link", "menuitem", "tab", "checkbox")
_SEES = "text => document.body.innerText.replace(/\\s+/g, ' ').includes(text)"
_SEES_NOT = "text => !document.body.innerText.replace(/\\s+/g, ' ').includes(text)"


class Performer:
    """Performs steps one by one.

    Args:
        terminal: where blocks are run.
        new_page: makes the page of a person who hasn't been there yet.
        keep_picture: gets the page and a file's name.
        port: where the demo really is.
    """

    def __init__(
        self,
        terminal: Terminal,
        new_page: Callable[[], Any],
        keep_picture: Callable[[Any, str], None],
        port: int,
    ) -> None:
        self._terminal, self._new_page, self._keep_picture, self._port = terminal, new_page, keep_picture, port
        self._pages: dict[str, Any] = {}
        self._page: Any = None
        self._sending: dict[Any, set[Any]] = {}

    def perform(self, step: Step) -> None:
        """Do it.

        Raises:
            AssertionError, playwright's Error: it can't be done, or what should be seen isn't.
        """
        if isinstance(step, Run):
            self._run(step)
        elif isinstance(step, Become):
            if step.person not in self._pages:
                self._pages[step.person] = self._new_page()
                self._watch(self._pages[step.person])
            self._page = self._pages[step.person]
        elif isinstance(step, Picture):
            self._keep_picture(self._page, step.file)
        elif isinstance(step, Act):
            self._act(step)

    def _run(self, step: Run) -> None:
        code = step.code.replace(WRITTEN_PORT, str(self._port))
        lines = tuple(line.replace(WRITTEN_PORT, str(self._port)) for line in step.prints)
        if step.background:
            self._terminal.begin(code)
            self._terminal.until_printed(lines)
            return
        output, status = self._terminal.run(code)
        assert (status != 0) == step.fails, f"exit status {status}:\n{output}"
        assert prints(output, lines), output

    def _act(self, step: Act) -> None:
        page, names, texts = self._page, step.names, step.texts
        match step.what:
            case "open":
                page.goto(texts[0].replace(WRITTEN_PORT, str(self._port)))
                if _SCRIPTED.search(page.url):
                    page.wait_for_function(_LOADED)
            case "type":
                self._field(names[0]).fill(texts[0])
            case "empty":
                self._field(names[0]).fill("")
            case "password":
                self._field(names[0]).fill(self._terminal.password())
            case "press":
                self._control(page if len(names) == 1 else self._line(names[1]), names[0]).click()
                self._settled()
            case "double-click":
                page.get_by_role("listitem", name=re.compile(f"^Name: {re.escape(names[0])}")).dblclick()
            case "menu":
                page.get_by_role("menuitem", name=names[1], exact=True).click()
                page.get_by_role("menuitem", name=names[0], exact=True).click()
            case "pick":
                page.get_by_role("radio", name=names[0], exact=True).check()
            case "can-not-pick":
                assert page.get_by_role("radio", name=names[0], exact=True).is_disabled()
            case "see":
                for text in texts:
                    page.wait_for_function(_SEES, arg=text, timeout=PATIENCE)
            case "see-no-more":
                page.wait_for_function(_SEES_NOT, arg=texts[0], timeout=PATIENCE)
            case "see-in-line":
                self._line(names[0]).filter(has_text=texts[0]).first.wait_for()
            case "property":
                self._write_property(*texts)
            case "copy":
                # the text in the element that follows
                after = page.get_by_text(texts[0]).first.locator("xpath=following::*[normalize-space(text())][1]")
                self._terminal.clipboard = after.inner_text().strip()
            case _:
                raise NotImplementedError(step.what)

    def _write_property(self, key: str, value: str) -> None:
        """In the table of JupyterHub's page of a group, whose fields have no names."""
        rows = self._page.locator(".properties-table tbody tr")
        rows.last.wait_for()
        for row in rows.all():
            fields = row.locator("input")
            if fields.nth(0).input_value() == key:
                fields.nth(1).fill(value)
                return
        rows.last.locator("input").nth(0).fill(key)
        rows.last.locator("input").nth(1).fill(value)
        self._control(rows.last, "Add Item").click()

    def _settled(self) -> None:
        """What a press sends has been answered: a page doesn't always show that."""
        self._page.wait_for_timeout(100)
        while self._sending[self._page]:
            self._page.wait_for_timeout(50)

    def _watch(self, page: Any) -> None:
        sending = self._sending[page] = set()

        def begun(request: Any) -> None:
            if request.method != "GET":
                sending.add(request)

        page.on("request", begun)
        for over in ("requestfinished", "requestfailed"):
            page.on(over, lambda request: sending.discard(request))

    def seen(self) -> str:
        """What the page in front shows, for a person who looks for what went wrong."""
        return self._page.evaluate("document.body.innerText") if self._page else ""

    def _field(self, name: str) -> Any:
        exactly = re.compile(rf"^\s*{re.escape(name)}:?\s*$")
        return self._page.get_by_label(exactly).or_(self._page.get_by_placeholder(exactly)).first

    def _line(self, name: str) -> Any:
        """The row of a table or list, or the line of a form, in which `name` stands."""
        rows = self._page.locator("tr, li, .hami-profile").filter(visible=True)
        in_it = rows.filter(has=self._page.get_by_text(name, exact=True))
        return in_it.or_(rows.filter(has_text=re.compile(rf"^\s*{re.escape(name)}\b"))).first

    def _control(self, place: Any, name: str) -> Any:
        # by what is read to somebody who can't see it, or by what is seen
        seen = re.compile(rf"^\s*{re.escape(name)}\s*$")
        wanted = place.locator("button, a, [role=tab]").filter(has_text=seen)
        for role in _CONTROLS:
            wanted = wanted.or_(place.get_by_role(role, name=name, exact=True))
        return wanted.filter(visible=True).first
