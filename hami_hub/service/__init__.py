"""The hub's page about its cards: a service of its own, `python -m hami_hub.service`, managed by the hub.

Admins see who has which slice, who waits and why, quotas to edit, use and refusals; everybody sees their own.  It reads
the journal, the hub's REST API and the cards (`machine`, `cluster`); nothing is decided here, and servers start as well
without it.  `setup` puts it into a hub's configuration.
"""
