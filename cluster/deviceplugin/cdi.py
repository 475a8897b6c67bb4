"""CDI specifications: what the container runtime does to a container that holds a slot.  Plain data in and out.

The runtime reads the file of a slot when the container that was given the slot is made.  Where the cards' device nodes
and driver libraries come from is `base`'s; writing and removing the files is `slices`'.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

KIND = "hami.io/slice"
# The oldest version with annotations; a base that needs a newer one brings its own.
MINIMAL_VERSION = "0.6.0"
_OWNER = "hami.io/slice-owner"
_FILE_PREFIX = "hami-slice-"

Edits: TypeAlias = Mapping[str, Any]


class SpecError(ValueError):
    """A file that is no CDI specification of ours."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The container that a slice is for."""

    namespace: str
    pod: str
    uid: str
    container: str

    @property
    def key(self) -> str:
        """Unique on the node and for all time: the name of the slice directory."""
        return f"{self.uid}_{self.container}"

    @property
    def words(self) -> str:
        """For people: "namespace/pod/container"."""
        return f"{self.namespace}/{self.pod}/{self.container}"


@dataclass(frozen=True, slots=True)
class Hold:
    """A slot, whose it is, and the card that goes with it; `card` None: of a slice without a card."""

    slot: str
    owner: Owner
    card: str | None


def device_name(slot: str) -> str:
    """What the kubelet hands to the runtime for `slot`."""
    return f"{KIND}={slot}"


def file_name(slot: str) -> str:
    """The file of the slot, in the folder that the runtime looks in."""
    return f"{_FILE_PREFIX}{slot}.json"


def slot_of_file(name: str) -> str | None:
    """The slot whose file has that name; None if it isn't one of ours."""
    if not (name.startswith(_FILE_PREFIX) and name.endswith(".json")):
        return None
    return name.removeprefix(_FILE_PREFIX).removesuffix(".json")


def encode_spec(hold: Hold, edits: Edits, *, version: str = MINIMAL_VERSION) -> str:
    """The specification of one slot; its annotation keeps whose it is, for a plugin that starts anew."""
    owner = hold.owner
    note = {
        "namespace": owner.namespace,
        "pod": owner.pod,
        "uid": owner.uid,
        "container": owner.container,
        "card": hold.card,
    }
    spec = {
        "cdiVersion": version,
        "kind": KIND,
        "annotations": {_OWNER: json.dumps(note)},
        "devices": [{"name": hold.slot, "containerEdits": edits}],
    }
    return json.dumps(spec, indent=1)


def decode_spec(text: str) -> tuple[Hold, frozenset[str]]:
    """Whose the slot of a specification is, and the paths on the node that it mounts.

    Raises:
        SpecError: not written by `encode_spec`.
    """
    try:
        spec = json.loads(text)
        note = json.loads(spec["annotations"][_OWNER])
        (device,) = spec["devices"]
        owner = Owner(str(note["namespace"]), str(note["pod"]), str(note["uid"]), str(note["container"]))
        card = None if note["card"] is None else str(note["card"])
        return Hold(str(device["name"]), owner, card), mounted_paths(device["containerEdits"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError(f"It is no CDI specification of a slot: {error!r}.") from None


def mounted_paths(edits: Edits) -> frozenset[str]:
    """The paths on the node that `edits` mount."""
    return frozenset(str(mount["hostPath"]) for mount in edits.get("mounts", ()))


def join_edits(edits: Iterable[Edits]) -> dict[str, Any]:
    """All of them in order; what isn't a list is the last one's."""
    joined: dict[str, Any] = {}
    for each in edits:
        for key, value in each.items():
            joined[key] = [*joined.get(key, []), *value] if isinstance(value, list) else value
    return joined


def environment_edits(variables: Mapping[str, str]) -> dict[str, Any]:
    """Variables of the container; they win over those of its image and its pod."""
    return {"env": [f"{name}={value}" for name, value in variables.items()]}


def bind_mount(source: str, target: str, *options: str) -> dict[str, Any]:
    """A bind mount, read-only unless `options` has "rw"; devices and setuid programs mean nothing on it."""
    mode = () if "rw" in options else ("ro",)
    return {
        "hostPath": source,
        "containerPath": target,
        "options": ["bind", "nosuid", "nodev", *mode, *options],
        "type": "bind",
    }


def newest_version(versions: Sequence[str]) -> str:
    """The highest of CDI's version numbers, at least `MINIMAL_VERSION`."""
    return max([MINIMAL_VERSION, *versions], key=_numbers)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))
