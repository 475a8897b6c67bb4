"""Events on pods, in plain words: shown by `kubectl describe` and by the hub.  Never in the way of anything else.

They are sent one after another at a bounded pace; the same words about the same pod are not repeated for a while, and
when too many wait, those about success go first: they only say what the pod's own annotations say.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from cluster.apiserver import ApiRefused, ApiServer, ApiUnreachable
from cluster.event import About, event_body, events_path

_log = logging.getLogger(__name__)
COMPONENT = "hami-scheduler"
FILTERING_FAILED, BINDING_FAILED, BINDING_SUCCEEDED = "FilteringFailed", "BindingFailed", "BindingSucceed"
_WARNINGS = frozenset({FILTERING_FAILED, BINDING_FAILED})
_PACE, _BURST = 10.0, 10.0  # a second; at once after a quiet time
_MOST_WAITING = 2000
_REPEATED_AFTER = 300.0
# Bindings come in bursts, and each of these costs the API server as much as a binding.
_SUCCESS_AFTER = 2.0
_LOOKED_AGAIN_AFTER = 0.2  # a failure may have come, which goes first
_MOST_REMEMBERED = 20000


@dataclass(frozen=True, slots=True)
class PodRef:
    """The pod that an event is about."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class _Waiting:
    pod: PodRef
    reason: str
    text: str
    due: float


class Events:
    """The events that wait to be sent.  `say` never waits; `run` sends."""

    def __init__(
        self, api: ApiServer, *, sent: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api, self._sent, self._clock = api, sent, clock
        self._failures: OrderedDict[tuple[str, str], _Waiting] = OrderedDict()
        self._successes: OrderedDict[tuple[str, str], _Waiting] = OrderedDict()
        self._said: OrderedDict[tuple[str, str, str], float] = OrderedDict()
        self._some = asyncio.Event()

    def say(self, pod: PodRef, reason: str, text: str) -> None:
        """Tell `text` about `pod`, unless it was told lately.  Of several that wait, only the last is told."""
        now, what = self._clock(), (pod.uid, reason, text)
        if now - self._said.get(what, -_REPEATED_AFTER) < _REPEATED_AFTER:
            return
        self._said[what] = now
        self._said.move_to_end(what)
        if len(self._said) > _MOST_REMEMBERED:
            self._said.popitem(last=False)
        failure = reason in _WARNINGS
        waiting = _Waiting(pod, reason, text, now if failure else now + _SUCCESS_AFTER)
        (self._failures if failure else self._successes)[pod.uid, reason] = waiting
        if len(self._failures) + len(self._successes) > _MOST_WAITING:
            (self._successes or self._failures).popitem(last=False)
        self._some.set()

    def waiting(self) -> tuple[tuple[str, str], ...]:
        """UID and reason of those that are not sent yet, in their order."""
        return *self._failures, *self._successes

    async def run(self) -> None:
        """Send what waits, for ever."""
        tokens, before = _BURST, self._clock()
        while True:
            await self._some.wait()
            now = self._clock()
            tokens, before = min(_BURST, tokens + (now - before) * _PACE), now
            first = next(iter((self._failures or self._successes).values()))
            pause = max(first.due - now, (1 - tokens) / _PACE)
            if pause > 0:
                await asyncio.sleep(min(pause, _LOOKED_AGAIN_AFTER))
                continue
            tokens -= 1
            (self._failures or self._successes).popitem(last=False)
            if not (self._failures or self._successes):
                self._some.clear()
            await self._send(first.pod, first.reason, first.text)

    async def _send(self, pod: PodRef, reason: str, text: str) -> None:
        about = About("Pod", pod.name, pod.uid, pod.namespace)
        body = event_body(about, reason, text, component=COMPONENT, warning=reason in _WARNINGS)
        try:
            await self._api.request("POST", events_path(about), msgspec.json.encode(body))
            self._sent()
        except (ApiRefused, ApiUnreachable) as error:
            # The pod or its namespace may be on the way out; an event isn't worth a second try.
            _log.debug("An event on %s/%s was not taken: %s", pod.namespace, pod.name, error)
