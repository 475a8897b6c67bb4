"""Who may see and change what, by the scopes that JupyterHub gives them.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# A scope of our own: seeing everything without being an admin.
VIEW_SCOPE = "custom:hami:view"
EDIT_SCOPE = "groups"


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who asks.

    Attributes:
        groups: JupyterHub's, by name.
        sees_all: may look at everybody's servers, quotas and use.
        edits_all: may change every group's quota; `edits` names the groups where it isn't all.
    """

    name: str
    groups: tuple[str, ...] = ()
    sees_all: bool = False
    edits_all: bool = False
    edits: frozenset[str] = frozenset()

    def may_edit(self, group: str) -> bool:
        """Whether they may change this group's quota."""
        return self.edits_all or group in self.edits

    def may_see(self, group: str) -> bool:
        """Whether they may see this group's quota with its properties."""
        return self.sees_all or self.may_edit(group)


def person(model: Mapping[str, Any]) -> Person:
    """Who that is, from what the hub says of the owner of a token and the token's scopes."""
    scopes = frozenset(str(scope) for scope in model.get("scopes") or ())
    edits_all = bool(scopes & {EDIT_SCOPE, f"admin:{EDIT_SCOPE}"})
    return Person(
        name=str(model.get("name", "")),
        groups=tuple(str(group) for group in model.get("groups") or ()),
        sees_all=edits_all or VIEW_SCOPE in scopes,
        edits_all=edits_all,
        edits=frozenset(_filtered(scopes)),
    )


def reading_only(who: Person) -> Person:
    """The same person while the hub can't be asked whether they still may."""
    return Person(who.name, who.groups, who.sees_all)


def _filtered(scopes: Iterable[str]) -> Iterable[str]:
    """The groups in scopes like `groups!group=ml`."""
    for scope in scopes:
        name, _, only = scope.partition("!")
        if name in (EDIT_SCOPE, f"admin:{EDIT_SCOPE}") and only.startswith("group="):
            yield only.removeprefix("group=")
