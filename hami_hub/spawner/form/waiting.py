"""What is seen while a server starts or waits in line: the words of `templates/spawn_pending.html`.

The page shows what `news` tells; it has no words of its own.  Without `hami_hub.setup` JupyterHub's own page shows the
same messages.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from ...core.language import ENGLISH, say
from ..news import FACTS, STARTING, WAITING, News


@dataclass(frozen=True, slots=True)
class WaitingView:
    """The page as it is at first; its script follows the news from there.

    Attributes:
        state: "waiting" in line, or "starting".
        message: the newest one.
        progress: percent.
        position: in line, from 1; 0: in none.
        frees_at: Unix time by which a slice comes free; None: not known.
        seconds: since the start was asked for.
        cancel_url: where its form is sent that cancels the start; "": nowhere, so only the script can.
        headings: by state.
        words: the page's other words, by key; `script`: JSON of the two.
    """

    language: str
    state: str
    message: str
    progress: int
    position: int
    frees_at: float | None
    seconds: int
    cancel_url: str
    headings: dict[str, str]
    words: dict[str, str]

    @property
    def script(self) -> str:
        """What the page's script needs."""
        return json.dumps({"headings": self.headings, "words": self.words}, ensure_ascii=False)


def waiting_view(news: News | None, language: str = ENGLISH, cancel_url: str = "") -> WaitingView:
    """The page for a start of which `news` tells; None: nothing is known of it."""
    last = (news.last if news is not None else None) or {}
    facts = last.get(FACTS, {})
    return WaitingView(
        language=language.replace("_", "-"),
        state=facts.get("state", STARTING),
        message=last.get("message", ""),
        progress=last.get("progress", 0),
        position=facts.get("position", 0),
        frees_at=facts.get("frees_at"),
        seconds=max(0, int(time.time() - news.since)) if news is not None else 0,
        cancel_url=cancel_url,
        headings={
            WAITING: say("Waiting for a slice"),
            STARTING: say("Your server is starting"),
            "ready": say("Your server is ready"),
            "failed": say("Your server was not started"),
            "cancelled": say("Cancelled"),
        },
        words={
            "redirected": say("This page takes you to your server as soon as it is ready."),
            "position": say("Place in line"),
            "elapsed": say("Waiting"),
            "frees": say("A slice comes free by"),
            "progress": say("Progress"),
            "log": say("What happened so far"),
            "cancel": say("Cancel"),
            "give_up": say("If you cancel you give up your place in line."),
            "cancel_now": say("Give up the place"),
            "keep": say("Keep waiting"),
            "cancelling": say("Cancelling your server's start."),
            "not_cancelled": say("The start could not be cancelled. Try again, or ask an admin."),
            "again": say("Choose again"),
            "home": say("Home"),
            "lost": say("The hub doesn't answer. This page tries again by itself."),
            "refreshed": say("Without JavaScript this page loads itself anew every five seconds."),
        },
    )
