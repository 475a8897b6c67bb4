"""Many nodes with many cards: who holds what, and where the next pod goes.  The scheduler extender's ledger.

One machine's ledger is `hami_hub.core.ledger`, and `placement` says the rule for one card that both follow.  This is
the only part of `hami_hub` that needs numpy.
"""

from .books import Fleet

__all__ = ["Fleet"]
