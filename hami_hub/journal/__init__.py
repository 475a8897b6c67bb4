"""The journal: what became of every attempt to start a server, kept in a database of its own.

The hub writes it; the service and `hami-hub usage` read it, from other processes.  What can be told from it is
`hami_hub.core.history`'s.  Nothing is decided by it: without a journal, servers start as well.
"""

from __future__ import annotations

from .journal import Journal
from .place import DEFAULT_URL, JournalError, NoJournalError, absolute, shown, url_problem
from .reader import Reader

__all__ = ["DEFAULT_URL", "Journal", "JournalError", "NoJournalError", "Reader", "absolute", "shown", "url_problem"]
