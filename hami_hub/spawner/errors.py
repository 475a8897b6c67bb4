"""The one error of the spawners: why a server was not started, in words for the person who asked for it.

JupyterHub shows the words on the form, on the progress page and in the REST API, logs no traceback, and does not
count the refusal as a sign that the hub is broken.  Anything else that is raised is a fault of ours or the hub's.
"""

from __future__ import annotations

import html
import logging
from enum import Enum
from pathlib import Path
from typing import Any

from tornado import web

from ..core.language import in_english, say
from .form import ShowForm

try:
    from jupyterhub.spawner import SpawnException

    HUB_COUNTS_REFUSALS = False
except ImportError:  # JupyterHub 5
    HUB_COUNTS_REFUSALS = True

    class SpawnException(web.HTTPError):  # type: ignore[no-redef]
        """JupyterHub 6's class of this name, as far as it is needed here."""

        def __init__(
            self, message: str, *, reason: str, log_message: str = "", message_html: str = "", status_code: int = 400
        ) -> None:
            super().__init__(status_code, message, reason=reason)
            self.message = message
            self.message_html = message_html


class Reason(str, Enum):
    """Why a server was not started: a label of the hub's metrics, so few and never renamed."""

    UNKNOWN_PROFILE = "hami-unknown-profile"
    NOT_ALLOWED = "hami-not-allowed"
    BAD_OPTION = "hami-bad-option"
    BAD_AMOUNT = "hami-bad-amount"
    NEVER_FITS = "hami-never-fits"
    NO_ROOM = "hami-no-room"  # waited for it, in vain
    OVER_QUOTA = "hami-over-quota"
    QUOTA_FAULT = "hami-quota-fault"  # a quota is written wrongly
    SETUP = "hami-setup"  # something an admin has to put right
    NO_ACCOUNT = "hami-no-account"
    HOME = "hami-home"
    COMMAND = "hami-command"  # the server's program can't be run
    SERVER_ENDED = "hami-server-ended"
    SERVER_SILENT = "hami-server-silent"
    # on Kubernetes
    REFUSED = "hami-refused"  # by what judges pods at their creation
    CLUSTER_QUOTA = "hami-cluster-quota"
    IMAGE = "hami-image"
    POD_FAILED = "hami-pod-failed"
    CLUSTER = "hami-cluster"  # it doesn't answer


_STATUS = {
    Reason.UNKNOWN_PROFILE: 400,
    Reason.NOT_ALLOWED: 403,
    Reason.BAD_OPTION: 400,
    Reason.BAD_AMOUNT: 400,
    Reason.NEVER_FITS: 409,
    Reason.OVER_QUOTA: 409,
    Reason.QUOTA_FAULT: 409,
    Reason.REFUSED: 403,
    Reason.CLUSTER_QUOTA: 409,
}

# Said before anything was started, by a rule: the others are failures.
REFUSALS = frozenset(
    {
        Reason.UNKNOWN_PROFILE.value,
        Reason.NOT_ALLOWED.value,
        Reason.BAD_OPTION.value,
        Reason.BAD_AMOUNT.value,
        Reason.NEVER_FITS.value,
        Reason.OVER_QUOTA.value,
        Reason.QUOTA_FAULT.value,
    }
)


class _Logged(str):
    """What is logged of an error.  JupyterHub 5 shows the same on its form: a page that escapes it gets `shown`."""

    __slots__ = ("shown",)
    shown: str

    def __new__(cls, text: str, shown: str) -> _Logged:
        """`text`, for a log; `shown`, HTML in the person's language."""
        logged = super().__new__(cls, text)
        logged.shown = shown
        return logged

    def __html__(self) -> str:
        """What MarkupSafe takes in place of the escaped text."""
        return self.shown


class GpuSpawnError(SpawnException):  # type: ignore[misc]
    """A server is not started, and that is nobody's bug.

    Args:
        message: plain sentences for the person: the value, the rule, what to do.
        reason: which kind of refusal.
    """

    def __init__(self, message: str, *, reason: Reason) -> None:
        as_html = html.escape(message)
        super().__init__(
            message,
            reason=reason.value,
            # Tornado formats it with %, and our words are full of percentages.
            log_message=in_english(message).replace("%", "%%"),
            message_html=as_html,
            status_code=_STATUS.get(reason, 503),
        )
        # The hub's pages read these two, and nothing else.
        self.jupyterhub_message = message
        self.jupyterhub_html_message = as_html

    def get_message(self) -> str:
        """What is logged."""
        return in_english(self.jupyterhub_message)

    def __str__(self) -> str:
        return _Logged(f"{self.get_message()} [{self.reason}]", self.jupyterhub_html_message)


def unwritable_home(home: Path) -> GpuSpawnError:
    """A home folder can't be written, or isn't there."""
    return GpuSpawnError(
        say(
            "Your home folder {home} can't be written, so your server can't start. Ask an admin to put it right.",
            home=home,
        ),
        reason=Reason.HOME,
    )


class _NoTraceback(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        if isinstance(error, GpuSpawnError):
            record.exc_info = None
        return not isinstance(error, ShowForm)


def log_without_tracebacks(logger: logging.Logger) -> None:
    """Keep the traceback of a refusal out of what `logger` and its children log, and a link to the form altogether.

    The hub logs one for everything that goes wrong after a form was sent, JupyterHub 5 for every failed start.
    """
    at: logging.Logger | None = logger
    while at is not None:
        for place in (at, *at.handlers):  # what a child logs passes the handlers only
            if not any(isinstance(each, _NoTraceback) for each in place.filters):
                place.addFilter(_NoTraceback())
        at = at.parent if at.propagate else None


def uncount(spawner: Any) -> None:
    """Have the hub not count the refusal that `spawner`'s start is about to come to, where it does.

    JupyterHub 5 adds one to `failure_count`, and ends if that makes `consecutive_failure_limit`, in a callback of the
    future of the whole start; any success in between sets the count to 0, so it can only be put right afterwards.
    """
    start, limit = spawner._spawn_future, spawner.consecutive_failure_limit
    if not HUB_COUNTS_REFUSALS or start is None or spawner.handler is None:
        return
    settings = spawner.handler.settings
    spawner.consecutive_failure_limit = 0  # read when it has counted

    def put_right(_: object) -> None:
        settings["failure_count"] = max(0, settings.get("failure_count", 0) - 1)
        spawner.consecutive_failure_limit = limit

    start.add_done_callback(put_right)
