"""`GpuKubeSpawner`: each server a pod, whose slice the cluster's GPU scheduler places and its nodes hold it to.

The Kubernetes half of `GpuSlicesMixin`, over KubeSpawner.  It has the pod ask for what the person chose (`pod`),
follows it (`watch`), and says what came of it (`stage`, `refusal`, `words`).  Nothing is reserved here: until a pod has
its place the scheduler's queue is the line, and when the pod is gone so is its slice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import aiohttp
from kubernetes_asyncio.client.exceptions import ApiException
from traitlets import Dict, default

from ...core.cards import Card
from ...core.language import in_english
from ...core.messages import describe_placement
from ...core.offers import Availability, offers_on_nodes, unknown_offers
from ...core.profiles import Choice, ChoiceError
from ...core.state import placement_to_json
from ...core.units import AmountError
from ..errors import GpuSpawnError, Reason
from ..form import FormContext, ShowForm, parse_form, read_link
from ..gpu_slices import GpuSlicesMixin
from ..news import STARTING, WAITING, News
from .cluster import Facts, GpuCluster, Inventory, Waiting
from .pod import Asks, ask, asked_by, label_payer, placement_of, send_to_gpu_scheduler
from .profile_list import StrictProfileList
from .refusal import answer, refusal
from .stage import Json, Stage, stage_of
from .watch import Patience, PodNeverSeenError, PodWatch, Seen, over
from .words import PROGRESS, sentence

_LOOK_SECONDS = 0.2
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
    _creation: asyncio.Future[Any] | None = None
    _removing: asyncio.Future[None] | None = None
    _pod_uid = ""  # of the pod that this start has made
    _only_running_left = False
    _asking: asyncio.Future[Inventory] | None = None
    _end: Stage | None = None
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
        offers, budgets, bills = self.affordable(found, _cards(inventory), chosen)
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
        self._asks, self._creation, self._end, self._held = None, None, None, None
        self._pod_uid, self._only_running_left = "", False
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
        self.pay(self.asked(choice, _cards(inventory)), choice.group, choice.profile.max_lifetime)
        self._asks = Asks(
            str(choice.profile.name),
            choice.request,
            self._facts.scheduler,
            self._facts.names,
            group=attempt.start.group,
        )

    def _refuse_if_never(self, choice: Choice, inventory: Inventory) -> None:
        if inventory.known:
            exactly = replace(choice.profile, request=choice.request, bounds=None, groups=frozenset())
            [offer] = offers_on_nodes([exactly], inventory.nodes)
            if offer.availability is Availability.NEVER:
                raise GpuSpawnError(offer.text, reason=Reason.NEVER_FITS)

    async def load_user_options(self) -> None:
        """Apply what the profile changes besides its slice."""
        if not self.has_profile_list:
            self.undo_overrides()
            self._apply_overrides(self.profile_overrides.get(self._asks.profile, {}) if self._asks else {})
            return
        try:
            await super().load_user_options()
        except ChoiceError:
            raise
        except ValueError as error:
            raise ChoiceError(str(error), reason="bad-option") from None

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
            asked = asked_by(pod, self.user.name, profile, self._facts.names, _cards(inventory))
        except AmountError as error:
            raise ChoiceError(str(error), reason="bad-amount") from None
        self.pay(asked, wanted)
        label_payer(pod, self._attempt.start.group)

    async def start_on_slice(self, news: News) -> Any:
        """Have KubeSpawner make the pod, and follow it until its server answers."""
        hubs_deadline = self.start_timeout - _SPARE_SECONDS
        starting = asyncio.ensure_future(self.their_start())
        following = asyncio.ensure_future(self._follow(news, hubs_deadline))
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
        self._note_placed()
        news.tell(PROGRESS["running"], self._placed_words("has-slice") or sentence("running"))
        await self.until_serving(url)
        return url

    async def _follow(self, news: News, total: float) -> Any:
        attempt = self._attempt
        assert attempt is not None

        def tell(key: str, text: str) -> None:
            if key == "placed-plain":
                text = self._placed_words("placed") or text
            waiting = not self._note_placed()
            if waiting:
                attempt.waits(watch.place)
            if key.startswith("waits"):
                self.log.info("%s waits. %s", self._log_name, in_english(text))
            state, position = (WAITING, watch.place) if waiting else (STARTING, 0)
            news.tell(PROGRESS.get(key, 50), text, state=state, position=position)

        patience = Patience(self.slices.wait_timeout, self._seconds_to_start(), total)
        watch = PodWatch(self._look, self._why_waiting, tell, patience)
        pod = await watch.until_running()
        self.pod_id = pod["metadata"]["uid"]
        return self._get_pod_url(pod)

    def _note_placed(self) -> bool:
        """Whether the pod has its place; then it is charged for what it got."""
        pod = self._pod()
        if pod is None or not (pod.get("spec") or {}).get("nodeName"):
            return False
        if self._attempt is not None:
            self._attempt.placed(placement_of(pod))
        return True

    def _seconds_to_start(self) -> float:
        # A profile may have changed it.
        return self.own_start_timeout if self.start_timeout == self._stretched else self.start_timeout

    async def _make_create_pod_request(self, pod: Any, request_timeout: float) -> bool:
        """KubeSpawner's, which would log the whole pod with the server's token when it is refused."""
        self._creation = asyncio.ensure_future(self.api.create_namespaced_pod(self.namespace, pod))
        self._creation.add_done_callback(_heard)
        try:
            # What has been asked for is not to be lost sight of if this start is cancelled.
            created = await asyncio.wait_for(asyncio.shield(self._creation), request_timeout)
        except asyncio.TimeoutError:
            return False
        except ApiException as error:
            if error.status != 409:
                self._creation = None
                raise
            self.log.info("A pod %s of an earlier start is still there and is removed.", self.pod_name)
            await self.their_stop(now=True)
            return False
        self._pod_uid = created.metadata.uid
        return True

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
        if self._creation is not None and not self._creation.done():
            await asyncio.wait({self._creation}, timeout=self.k8s_api_request_timeout)
        if self._creation is None:
            return  # nothing was asked for, or it was refused
        self._removing = asyncio.ensure_future(self.their_stop(now=True))
        self._removing.add_done_callback(_heard)
        # What holds a pod back, like a finalizer, doesn't hold back why the start came to nothing.
        await asyncio.wait({self._removing}, timeout=_REMOVE_SECONDS)
        if self._removing.done():
            self._removing.result()

    # --- what is seen of the pod --------------------------------------------------------------------------------

    def _pod(self) -> Json | None:
        """The pod of this start; never an earlier one of the same name."""
        pods = self.pod_reflector.pods if self.pod_reflector else {}
        pod: Json | None = pods.get(f"{self.namespace}/{self.pod_name}")
        return pod if pod is not None and pod["metadata"].get("uid") == self._pod_uid else None

    def _look(self) -> Seen:
        pod = self._pod()
        if pod is None:
            return Seen(created=bool(self._pod_uid))
        return Seen(True, pod, self._pods_events(), self._only_running_left and self._runs(pod))

    def _pods_events(self) -> list[Json]:
        events = self.event_reflector.resources.values() if self.event_reflector else ()
        return [each for each in events if (each.get("involvedObject") or {}).get("uid") == self._pod_uid]

    async def _why_waiting(self) -> Waiting | None:
        if self._asks is not None and self._asks.request is None:
            return None
        return await self.cluster.waiting(self.namespace, self.pod_name, self._namespace_default())

    def _placed_words(self, key: str) -> str:
        pod = self._pod()
        placement = placement_of(pod) if pod is not None else None
        if placement is None or not placement.shares:
            return ""
        return sentence(key, slice=describe_placement(placement, self.cluster.last.states))

    async def server_ended(self) -> None:
        """Return when the pod won't answer any more."""
        while True:
            pod = self._pod()
            self._end = stage_of(pod, self._pods_events()) if pod is not None else Stage("deleted", over=True)
            if self._end.over:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def why_ended(self, status: object) -> GpuSpawnError:
        """What the pod says of it."""
        return over(self._end) if self._end is not None else super().why_ended(status)

    async def exit_status(self) -> object:
        """It is in what the pod says."""
        return None

    # --- while it runs, and over a restart of the hub -------------------------------------------------------------

    def server_runs(self) -> None:
        """Note what it holds."""
        pod = self._pod()
        placement = placement_of(pod) if pod is not None else None
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
        pods = self.pod_reflector.pods if self.pod_reflector else {}
        pod = pods.get(f"{self.namespace}/{self.pod_name}")
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


def _cards(inventory: Inventory) -> tuple[Card, ...]:
    return tuple(state.card for state in inventory.states)


def _heard(done: asyncio.Future[Any]) -> None:
    """Whether it failed is not left for nobody to ask."""
    if not done.cancelled():
        done.exception()
