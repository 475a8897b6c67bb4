"""`GpuKubeSpawner`: each server a pod, whose slice the cluster's GPU scheduler places and its nodes hold it to.

The Kubernetes half of `GpuSlicesMixin`, over KubeSpawner.  It has the pod ask for what the person chose (`pod`), keeps
it in sight (`own_pod`), follows it (`follow`), and says what came of it (`stage`, `refusal`, `words`).  Nothing is
reserved here: until a pod has its place the scheduler's queue is the line, and when the pod is gone so is its slice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import aiohttp
from kubernetes_asyncio.client.exceptions import ApiException
from traitlets import Dict, default

from ...core.offers import Availability, offers_on_nodes, unknown_offers
from ...core.profiles import Choice, ChoiceError
from ...core.state import placement_to_json
from ...core.units import AmountError
from ..errors import GpuSpawnError, Reason
from ..form import FormContext, ShowForm, parse_form, read_link
from ..gpu_slices import GpuSlicesMixin
from ..news import News
from .cluster import Facts, GpuCluster, Inventory
from .follow import Follower
from .own_pod import OwnPod, heard
from .pod import Asks, ask, asked_by, label_payer, send_to_gpu_scheduler
from .profile_list import StrictProfileList
from .refusal import answer, refusal
from .stage import Json
from .waits import WhyWaiting
from .watch import Patience, PodNeverSeenError, over
from .words import sentence

_SPARE_SECONDS = 5
_REMOVE_SECONDS = 5
_AWAY = (aiohttp.ClientError, ConnectionError, TimeoutError, asyncio.TimeoutError)


class GpuKubeSpawner(GpuSlicesMixin, StrictProfileList):
    """Starts each server as a pod on a slice of a card of the cluster.

    What `KubeSpawner` has holds here too; what people can pick from is `c.GpuSlices.profiles`, or `profile_list` where
    an admin has set that and not the other.
    """

    profile_overrides = Dict(
        help="""
        What else a profile of `c.GpuSlices.profiles` changes, by its name: the same as `kubespawner_override` in
        KubeSpawner's `profile_list`. It holds for that start only.

        Example::

            c.GpuKubeSpawner.profile_overrides = {
                "small": {"image": "quay.io/jupyter/pytorch-notebook:cuda12-latest"},
                "cpu": {"mem_limit": "2G"},
            }

        Default: nothing.
        """,
    ).tag(config=True)

    _facts: Facts = Facts()
    _asks: Asks | None = None  # None also where `profile_list` says what is asked for
    _own = OwnPod(dict, tuple)  # none, before the first start
    _removing: asyncio.Future[None] | None = None
    _only_running_left = False
    _asking: asyncio.Future[Inventory] | None = None
    _held: dict[str, Any] | None = None

    # --- what is offered ----------------------------------------------------------------------------------------

    @property
    def cluster(self) -> GpuCluster:
        """The hub's view of the scheduler."""
        return GpuCluster.instance(config=self.config)

    @property
    def has_profile_list(self) -> bool:
        """Whether KubeSpawner's own `profile_list` is what people pick from."""
        return bool(self.profile_list) and "profiles" not in self.config.GpuSlices

    @default("options_form")
    def _default_options_form(self) -> Any:
        return self._options_form_default() if self.has_profile_list else type(self)._slices_form

    @default("options_from_form")
    def _default_options_from_form(self) -> Any:
        return self._options_from_form if self.has_profile_list else parse_form

    def options_from_query(self, query_data: Mapping[str, list[str]]) -> dict[str, str]:
        """What a link like /hub/spawn?opt-profile=gpu-other&opt-vram=3GiB asks for."""
        if self.has_profile_list:
            if not read_link(query_data).starts:
                raise ShowForm
            # JupyterHub 5 hands on the prefix.
            plain = {key.removeprefix("opt-"): values for key, values in query_data.items()}
            chosen: dict[str, str] = self.options_from_form(plain)
            return chosen
        return super().options_from_query(query_data)

    async def whats_on_offer(self) -> FormContext:
        """The cluster's cards, as the scheduler tells of them."""
        inventory = await self.cluster.inventory(self._namespace_default())
        profiles, groups, chosen = self.slices.offered, self.group_names(), self.last_choice()
        known = inventory.known
        found = offers_on_nodes(profiles, inventory.nodes, groups) if known else unknown_offers(profiles, groups)
        offers, budgets, bills = self.affordable(found, inventory.cards, chosen)
        return FormContext(
            cards=inventory.states,
            nodes=tuple(inventory.nodes.values()),
            offers=offers,
            chosen=chosen,
            budgets=budgets,
            bills=bills,
            problem=inventory.problem,
        )

    # --- from start to stop -------------------------------------------------------------------------------------

    async def get_slice(self, news: News) -> None:
        """See what the pod has to ask for, and that it could be had at all."""
        self._asks = self._held = None
        self._own, self._only_running_left = OwnPod(self._pods_seen, self._events_seen), False
        self._facts = await self.cluster.facts(self._namespace_default())
        if self.has_profile_list:
            # Only to know the cards' names when the pod has one.
            self._asking = asyncio.ensure_future(self.cluster.inventory(self._namespace_default()))
            return
        choice, attempt = self.chosen(), self._attempt
        assert attempt is not None
        inventory = Inventory()
        if choice.request is not None:
            attempt.wishes(self.asked(choice, ()))
            inventory = await self.cluster.inventory(self._namespace_default())
            self._refuse_if_never(choice, inventory)
        self.pay(self.asked(choice, inventory.cards), choice.group, choice.profile.max_lifetime)
        profile, facts, group = str(choice.profile.name), self._facts, attempt.start.group
        self._asks = Asks(profile, choice.request, facts.scheduler, facts.names, group)

    def _refuse_if_never(self, choice: Choice, inventory: Inventory) -> None:
        if inventory.known:
            exactly = replace(choice.profile, request=choice.request, bounds=None, groups=frozenset())
            [offer] = offers_on_nodes([exactly], inventory.nodes)
            if offer.availability is Availability.NEVER:
                raise GpuSpawnError(offer.text, reason=Reason.NEVER_FITS)

    async def load_user_options(self) -> None:
        """Apply what the profile changes besides its slice."""
        if self.has_profile_list:
            await super().load_user_options()
            return
        self.undo_overrides()
        self._apply_overrides(self.profile_overrides.get(self._asks.profile, {}) if self._asks else {})

    async def get_pod_manifest(self) -> Any:
        """KubeSpawner's pod, asking for the slice."""
        pod = await super().get_pod_manifest()
        if self._asks is not None:
            return ask(pod, self._asks)
        await self._pay_for_pod(pod)
        return send_to_gpu_scheduler(pod, self._facts.names, self._facts.scheduler)

    async def _pay_for_pod(self, pod: Any) -> None:
        """What a `profile_list` comes to is known when its pod is ready to be made."""
        options = self.user_options if isinstance(self.user_options, dict) else {}
        profile, wanted = str(options.get("profile") or ""), str(options.get("group") or "")
        inventory = await self._asking if self._asking is not None else Inventory()
        assert self._attempt is not None
        try:
            asked = asked_by(pod, self.user.name, profile, self._facts.names, inventory.cards)
        except AmountError as error:
            raise ChoiceError(str(error), reason="bad-amount") from None
        self.pay(asked, wanted)
        label_payer(pod, self._attempt.start.group)

    async def start_on_slice(self, news: News) -> Any:
        """Have KubeSpawner make the pod, and follow it until its server answers."""
        assert self._attempt is not None
        hubs_deadline = self.start_timeout - _SPARE_SECONDS
        follower = Follower(self._own, self._attempt, news, lambda: self.cluster.last.states, self.log, self._log_name)
        starting = asyncio.ensure_future(self.their_start())
        following = asyncio.ensure_future(self._follow(follower, hubs_deadline))
        try:
            await asyncio.wait({starting, following}, return_when=asyncio.FIRST_COMPLETED)
            # KubeSpawner may look up to five seconds late, so whoever sees it first counts.
            url = following.result() if following.done() else starting.result()
        except PodNeverSeenError:
            await self._start_watching_pods(replace=True)
            raise
        finally:
            for task in (starting, following):
                task.cancel()
            await asyncio.wait({starting, following})
        follower.runs()
        await self.until_serving(url)
        return url

    async def _follow(self, follower: Follower, total: float) -> Any:
        patience = Patience(self.slices.wait_timeout, self._seconds_to_start(), total)
        waits = self._why_waiting()
        pod = await follower.until_running(lambda each: self._only_running_left and self._runs(each), waits, patience)
        self.pod_id = pod["metadata"]["uid"]
        return self._get_pod_url(pod)

    def _why_waiting(self) -> WhyWaiting | None:
        request = self._asks.request if self._asks is not None else self._facts.names
        if request is None:
            return None
        ends = self.slices.books.charges.ends
        return WhyWaiting(self._own, self.cluster, self._namespace_default(), request, ends)

    def _seconds_to_start(self) -> float:
        # A profile may have changed it.
        return self.own_start_timeout if self.start_timeout == self._stretched else self.start_timeout

    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> bool:
        """KubeSpawner's, which would log the whole pod with the server's token when it is refused."""
        assert self._attempt is not None
        self._attempt.becomes(self.its_pod())  # what a profile changes may be its name
        asked = self.api.create_namespaced_pod(self.namespace, pod)
        try:
            return await self._own.make(self.namespace, self.pod_name, asked, request_timeout)
        except ApiException as error:
            if error.status != 409:
                raise
            self.log.info("A pod %s of an earlier start is still there and is removed.", self.pod_name)
            await self.their_stop(now=True)
            return False

    def is_pod_running(self, pod: Any) -> bool:
        """Whether the server can be asked for pages."""
        # KubeSpawner begins to ask when all that it does itself is done.
        self._only_running_left = True
        return self._runs(pod)

    def _runs(self, pod: Any) -> bool:
        try:
            return bool(super().is_pod_running(pod))
        except (KeyError, TypeError):  # a status that is only being filled in
            return False

    async def end_start(self) -> None:
        """Remove the pod, also one that is only being made."""
        await self._own.until_answered(self.k8s_api_request_timeout)
        if not self._own.may_be_there:
            return
        self._removing = asyncio.ensure_future(self.their_stop(now=True))
        self._removing.add_done_callback(heard)
        # What holds a pod back, like a finalizer, doesn't hold back why the start came to nothing.
        await asyncio.wait({self._removing}, timeout=_REMOVE_SECONDS)
        if self._removing.done():
            self._removing.result()

    # --- what is seen of the pod --------------------------------------------------------------------------------

    def _pods_seen(self) -> Mapping[str, Json]:
        pods: Mapping[str, Json] = self.pod_reflector.pods if self.pod_reflector else {}
        return pods

    def _events_seen(self) -> Iterable[Json]:
        events: Iterable[Json] = self.event_reflector.resources.values() if self.event_reflector else ()
        return events

    def its_pod(self) -> str:
        """Its namespace and name, as they are before there is one too."""
        return f"{self.namespace}/{self.pod_name}"

    async def server_ended(self) -> None:
        """Return when the pod won't answer any more."""
        await self._own.until_over()

    def why_ended(self, status: object) -> GpuSpawnError:
        """What the pod says of it."""
        return over(self._own.end) if self._own.end is not None else super().why_ended(status)

    async def exit_status(self) -> object:
        """It is in what the pod says."""
        return None

    # --- while it runs, and over a restart of the hub -------------------------------------------------------------

    def server_runs(self) -> None:
        """Note what it holds."""
        placement = self._own.placement()
        self._held = {
            "profile": self._asks.profile if self._asks else None,
            "placement": placement_to_json(placement) if placement else None,
        }

    def slice_state(self) -> dict[str, Any] | None:
        """The profile that was chosen, and where its slice is; None: nothing runs."""
        return self._held

    def restore_slice(self, saved: Any) -> None:
        """Take it over as it is: the books are the scheduler's."""
        self._held = dict(saved) if isinstance(saved, Mapping) else {}

    def until_free(self) -> asyncio.Future[None] | None:
        """Done when the pod of a start that came to nothing is gone; one that ran is gone before anybody asks."""
        return self._removing

    def clear_state(self) -> None:
        """Forget the server."""
        super().clear_state()
        self._held = None

    async def poll(self) -> int | None:
        """None while the server runs, or waits for a place.  A pod that is of no use any more is removed."""
        if self._unfinished:
            # Nobody waits for what this pod would become.
            await self._remove()
            return 1
        status: int | None = await super().poll()
        if status is not None and self.delete_stopped_pods and self._is_dead():
            await self._remove()
        return status

    def _is_dead(self) -> bool:
        pod = self._pods_seen().get(self.its_pod())
        return pod is not None and pod["status"].get("phase") in ("Failed", "Succeeded")

    async def _remove(self) -> None:
        try:
            await self.their_stop(now=True)
        except (ApiException, *_AWAY) as error:
            self.log.warning("The pod %s could not be removed: %r", self.pod_name, error)

    # --- small things -------------------------------------------------------------------------------------------

    def explain(self, error: BaseException) -> BaseException:
        """`error` in words for the person, if it was to be foreseen."""
        if isinstance(error, ApiException):
            explained = refusal(answer(error.status, error.body, error.reason))
            self.log.error("The cluster did not take the server of %s. %s", self._log_name, explained)
            return explained
        if isinstance(error, _AWAY):
            self.log.error("The cluster can't be asked for the server of %s: %r", self._log_name, error)
            return GpuSpawnError(sentence("cluster-away"), reason=Reason.CLUSTER)
        return super().explain(error)
