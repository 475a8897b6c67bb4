"""Quotas as they are written: flat text on a JupyterHub group, `hami.vram = 24GiB`, and back.

Pure.  Strict: whatever can't be understood is a fault that names key, value, rule and remedy, and while a group has one
its gate is shut.  What runs and whether one more server may start is `budgets`' business.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .language import say
from .shown import shown
from .slices import SliceId
from .times import format_time, parse_time
from .units import AmountError, Mib, format_vram, parse_vram

PREFIX = "hami."
_USER = "hami.user."
_USER_KEYS = ("vram", "cores", "servers")

# More is a slip of the keyboard: 4 EiB, ten thousand cards, a million servers.
_MOST_VRAM = Mib(4 * 1024**4)
_MOST_CORES = 1_000_000
_MOST_SERVERS = 1_000_000
_MOST_WEIGHT = 1000.0
_SHOWN = 48

_WHOLE = re.compile(r"[0-9]{1,18}")
_CORES = re.compile(r"([0-9]{1,18}) ?%?")
_WEIGHT = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6})?")
_PROFILE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuota:
    """What one person may hold, instead of what the group says of everybody.  None: as the group says."""

    vram: Mib | None = None
    cores: int | None = None
    servers: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What the servers of one group may hold together.  None: no limit.

    Attributes:
        vram: MiB over all cards; `cores`: percent of a card, 200 is two cards; `servers`: those with a GPU.
        vram_per_user, cores_per_user, servers_per_user: the same for each person.
        profiles: names of the profiles that may be paid from it.
        max_lifetime, idle_timeout: seconds after which a server is stopped.
        weight: share of those who wait; two groups of weight 2 and 1 get their turns as 2 to 1.
        users: exceptions, by casefolded user name.
    """

    vram: Mib | None = None
    cores: int | None = None
    servers: int | None = None
    vram_per_user: Mib | None = None
    cores_per_user: int | None = None
    servers_per_user: int | None = None
    profiles: frozenset[str] | None = None
    max_lifetime: int | None = None
    idle_timeout: int | None = None
    weight: float = 1.0
    users: Mapping[str, UserQuota] = field(default_factory=dict)

    def of_user(self, user: str) -> UserQuota:
        """What holds for one person: their exceptions, else what the group says of everybody."""
        own = self.users.get(user.casefold(), UserQuota())
        return UserQuota(
            vram=self.vram_per_user if own.vram is None else own.vram,
            cores=self.cores_per_user if own.cores is None else own.cores,
            servers=self.servers_per_user if own.servers is None else own.servers,
        )


@dataclass(frozen=True, slots=True)
class QuotaFault:
    """A property that is written wrongly.  `text` is a sentence: the value, the rule, what would be right."""

    key: str
    value: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What one starting or running server is charged.

    Attributes:
        group: who pays; "" is the default quota.
        vram, cores: over all its cards.
        since: Unix time of the accepted start; `until`: of the end of its lifetime.
        weight: the payer's, for the order of those who wait.
    """

    holder: SliceId
    user: str
    group: str
    profile: str
    cards: int
    vram: Mib
    cores: int
    since: float
    until: float | None = None
    weight: float = 1.0

    @property
    def amount(self) -> Amount:
        """The three that quotas limit."""
        return Amount(self.vram, self.cores, 1)


@dataclass(frozen=True, slots=True)
class Amount:
    """What servers hold together: MiB, percent of a card, and how many they are."""

    vram: Mib = Mib(0)
    cores: int = 0
    servers: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(Mib(self.vram + other.vram), self.cores + other.cores, self.servers + other.servers)


def has_quota(properties: Mapping[str, Any]) -> bool:
    """Whether a group with these properties pays for anything."""
    return any(is_quota_key(key) for key in properties)


def is_quota_key(key: object) -> bool:
    """Whether a property belongs to a quota, if only as a misspelt one."""
    # Near misses too: a quota that nobody reads would be an open gate.
    return isinstance(key, str) and key.strip().casefold().startswith(PREFIX)


def parse_quota(properties: Mapping[str, Any]) -> tuple[Quota, tuple[QuotaFault, ...]]:
    """The quota that a group's properties come to, and what is written wrongly in them.  Never raises.

    Args:
        properties: text values, as the admin page keeps them; a number counts as text.  Keys without the prefix
            `hami.` are left alone.
    """
    read = _Reader()
    for key, value in properties.items():
        if is_quota_key(key):
            read.take(str(key), value)
    users = {user: UserQuota(**limits) for user, limits in read.users.items()}
    return Quota(**read.values, users=users), tuple(read.faults)


def quota_properties(quota: Quota) -> dict[str, str]:
    """`quota` as properties; `parse_quota` gives it back."""
    written: dict[str, str] = {}
    for key, rule in _RULES.items():
        value = getattr(quota, rule.attribute)
        if value is not None and not (rule.attribute == "weight" and value == 1):
            written[key] = rule.write(value)
    for user, limits in quota.users.items():
        for short in _USER_KEYS:
            value = getattr(limits, short)
            if value is not None:
                written[f"{_USER}{user}.{short}"] = _RULES[PREFIX + short].write(value)
    return written


class _Reader:
    """What has been read so far."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.users: dict[str, dict[str, Any]] = {}
        self.faults: list[QuotaFault] = []

    def take(self, key: str, value: object) -> None:
        """Read one property."""
        try:
            text = _text(key, value)
            if key.startswith(_USER):
                self._exception(key, text)
            elif key in _RULES:
                self.values[_RULES[key].attribute] = _RULES[key].read(key, text)
            else:
                raise AmountError(_unknown(key))
        except AmountError as error:
            self.faults.append(QuotaFault(key, _plain(value), str(error)))

    def _exception(self, key: str, text: str) -> None:
        name, dot, short = key.removeprefix(_USER).rpartition(".")
        if not name or not dot or short not in _USER_KEYS:
            raise AmountError(_no_exception(key))
        limits = self.users.setdefault(name.casefold(), {})
        if short in limits:
            raise AmountError(
                say(
                    "{key} is there twice, in upper and lower case, which are the same for user names. Remove one.",
                    key=_shown(key),
                )
            )
        limits[short] = _RULES[PREFIX + short].read(key, text)


def _unknown(key: str) -> str:
    short = {each.removeprefix(PREFIX): each for each in _RULES}
    near = difflib.get_close_matches(key.strip().casefold().removeprefix(PREFIX), short, n=1)
    if near:
        return say("{key} is no key of a quota. Did you mean {near}?", key=_shown(key), near=short[near[0]])
    return say("{key} is no key of a quota. There are: {keys}.", key=_shown(key), keys=", ".join(KEYS))


def _no_exception(key: str) -> str:
    name = _shown(key.removeprefix(_USER).strip(".")) or "alice"
    return say(
        "{key} is no exception for a person. Write {vram}, {cores} or {servers}.",
        key=_shown(key),
        **{short: f"{_USER}{name}.{short}" for short in _USER_KEYS},
    )


def _text(key: str, value: object) -> str:
    if isinstance(value, str):
        text = value
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**18:
        text = str(value)
    elif isinstance(value, float) and math.isfinite(value) and abs(value) < 10**15:
        text = str(int(value)) if value.is_integer() else str(value)
    else:
        raise AmountError(_wrong(key, value, say("the value of a property is text")))
    if not text.strip():
        raise AmountError(
            say("{key} is empty. Write it like {example}, or remove the property.", key=_shown(key), example=_like(key))
        )
    return text.strip()


def _like(key: str) -> str:
    rule = _RULES.get(PREFIX + key.rpartition(".")[2] if key.startswith(_USER) else key)
    return rule.example if rule is not None else _RULES["hami.vram"].example


def _wrong(key: str, value: object, rule: str) -> str:
    return say(
        "{key} is {value}, but {rule}. Write it like {example}.",
        key=_shown(key),
        value=f'"{_plain(value)}"',
        rule=rule,
        example=_like(key),
    )


def _plain(value: object) -> str:
    try:
        return _shown(str(value))
    except Exception:  # an integer of more digits than Python prints
        return "…"


def _shown(text: str) -> str:
    return shown(text, _SHOWN)


# --- reading and writing one value ----------------------------------------------------------------------------------


def _read_vram(key: str, text: str) -> Mib:
    if _WHOLE.fullmatch(text):
        if int(text) == 0:
            return Mib(0)
        raise AmountError(_wrong(key, text, say("an amount of VRAM has a unit")))
    try:
        return parse_vram(text, least=Mib(0), most=_MOST_VRAM)
    except AmountError as error:
        raise AmountError(say("{key}: {why}", key=_shown(key), why=str(error))) from None


def _read_cores(key: str, text: str) -> int:
    match = _CORES.fullmatch(text)
    if match is None or int(match[1]) > _MOST_CORES:
        raise AmountError(_wrong(key, text, say("cores are a whole percentage of a card, 200 for two cards")))
    return int(match[1])


def _read_servers(key: str, text: str) -> int:
    if _WHOLE.fullmatch(text) is None or int(text) > _MOST_SERVERS:
        raise AmountError(_wrong(key, text, say("servers are a whole number")))
    return int(text)


def _read_time(key: str, text: str) -> int:
    seconds = parse_time(text)
    if seconds is None:
        raise AmountError(_wrong(key, text, say("a time has a unit, d, h, m or s, and is at most ten years")))
    return seconds


def _read_profiles(key: str, text: str) -> frozenset[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(_PROFILE.fullmatch(name) for name in names):
        raise AmountError(_wrong(key, text, say("profiles are names with commas between them")))
    return frozenset(names)


def _read_weight(key: str, text: str) -> float:
    weight = float(text) if _WEIGHT.fullmatch(text) else 0.0
    if not 0 < weight <= _MOST_WEIGHT:
        raise AmountError(_wrong(key, text, say("a weight is a number above 0, at most 1000")))
    return weight


def _write_vram(amount: Mib) -> str:
    return format_vram(amount).replace(" ", "") if amount else "0"


@dataclass(frozen=True, slots=True)
class _Rule:
    attribute: str
    read: Callable[[str, str], Any]
    example: str
    write: Callable[[Any], str] = str


_RULES = {
    "hami.vram": _Rule("vram", _read_vram, "24GiB", _write_vram),
    "hami.cores": _Rule("cores", _read_cores, "200"),
    "hami.servers": _Rule("servers", _read_servers, "6"),
    "hami.vram-per-user": _Rule("vram_per_user", _read_vram, "8GiB", _write_vram),
    "hami.cores-per-user": _Rule("cores_per_user", _read_cores, "100"),
    "hami.servers-per-user": _Rule("servers_per_user", _read_servers, "2"),
    "hami.profiles": _Rule("profiles", _read_profiles, "small, medium", lambda names: ", ".join(sorted(names))),
    "hami.max-lifetime": _Rule("max_lifetime", _read_time, "8h", format_time),
    "hami.idle-timeout": _Rule("idle_timeout", _read_time, "45m", format_time),
    "hami.weight": _Rule("weight", _read_weight, "2", lambda weight: f"{weight:.6f}".rstrip("0").rstrip(".")),
}

# The keys, without the exceptions for single people, and what each may look like.
KEYS: Mapping[str, str] = {key: rule.example for key, rule in _RULES.items()}
EXCEPTION_KEYS = _USER_KEYS
