"""One run of the published experiment: pods come until they ask for 130 % of all cards; none leaves.

Pods with cards are placed by `hami_hub.core.fleet` as it stands in the scheduler.  What the extender doesn't do is done
here as kube-scheduler does it: a node is a candidate if its CPU and memory suffice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from hami_hub.core.cards import Card, CardUuid
from hami_hub.core.fleet import Fleet
from hami_hub.core.nodes import FleetPlacement
from hami_hub.core.pods import ContainerAsk, PodUid, PodView
from hami_hub.core.slices import CardPolicy, CardWishes, NodePolicy, SliceRequest
from hami_hub.core.typical import Shape, TypicalPods
from hami_hub.core.units import Mib, Percent

from .trace import MILLI, Job, Machine

Ints = npt.NDArray[np.int64]
# The trace knows no limit on the number of slices.
_SLOTS = 1000


class Plain(str, Enum):
    """Who places pods that ask for no card."""

    FLEET = "the same policy"
    PACKED = "on the nodes with the least left of cards and CPU"
    SPREAD = "on the nodes with the most CPU and memory left, as kube-scheduler does by default"


@dataclass(frozen=True, slots=True)
class Policy:
    """One line of the table.

    Attributes:
        learns: what is typical is counted from the pods that came; else it is known beforehand, as in the publication.
    """

    name: str
    node: NodePolicy = NodePolicy.FGD
    card: CardPolicy = CardPolicy.FGD
    plain: Plain = Plain.FLEET
    learns: bool = False


POLICIES = (
    Policy("FGD+"),
    Policy("FGD+, typical pods learnt", learns=True),
    Policy("FGD+, CPU-only pods packed", plain=Plain.PACKED),
    Policy("FGD+, CPU-only pods spread", plain=Plain.SPREAD),
    Policy("binpack", NodePolicy.BINPACK, CardPolicy.BINPACK, Plain.PACKED),
    Policy("HAMi's default emulated, CPU-only pods packed", NodePolicy.BINPACK, CardPolicy.SPREAD, Plain.PACKED),
    Policy("HAMi's default emulated, CPU-only pods spread", NodePolicy.BINPACK, CardPolicy.SPREAD, Plain.SPREAD),
)


@dataclass(frozen=True, slots=True)
class Filled:
    """Percent of all cards that are allocated when the pods so far asked for 100 and 130 % of them."""

    at_100: float
    at_130: float


class Replay:
    """The cluster of the trace under one policy."""

    def __init__(self, machines: Sequence[Machine], jobs: Sequence[Job], policy: Policy) -> None:
        """`jobs`: the whole trace, from which it is known what is typical."""
        self._policy = policy
        known = Counter(Shape.of(self._request(job), job.cpu) for job in jobs if job.cards)
        self._fleet = Fleet(TypicalPods(None if policy.learns else known.items()))
        for machine in machines:
            cards = [_card(machine, index) for index in range(machine.cards)]
            self._fleet.set_node(machine.name, cards, cpu=machine.cpu)
        self._machines = machines
        self._index = {machine.name: i for i, machine in enumerate(machines)}
        self._names = np.array([machine.name for machine in machines])
        self._cpu: Ints = np.array([machine.cpu for machine in machines], np.int64)
        self._memory: Ints = np.array([machine.memory for machine in machines], np.int64)
        self._all_cpu, self._all_memory = self._cpu.copy(), self._memory.copy()
        self._cards: Ints = np.array([machine.cards * MILLI for machine in machines], np.int64)
        self._bystanders: Ints = np.zeros(len(machines), np.int64)
        self.capacity = sum(machine.cards for machine in machines) * MILLI

    def run(self, arrivals: Sequence[Job]) -> Filled:
        """Place all of `arrivals`."""
        asked = allocated = 0
        at_100 = 0.0
        for number, job in enumerate(arrivals):
            asked += job.asks
            allocated += self._place(number, job)
            if not at_100 and asked >= self.capacity:
                at_100 = 100 * allocated / self.capacity
        return Filled(at_100, 100 * allocated / self.capacity)

    def _place(self, number: int, job: Job) -> int:
        """Thousandths of cards that the job got."""
        candidates = np.flatnonzero((self._cpu >= job.cpu) & (self._memory >= job.memory))
        if not candidates.size:
            return 0
        if not job.cards and self._policy.plain is not Plain.FLEET:
            self._take(int(candidates[self._plain_score(candidates).argmax()]), job)
            return 0
        asks = (ContainerAsk("main", self._request(job)),) if job.cards else ()
        view = PodView(
            namespace="", name="", uid=PodUid(str(number)), asks=asks, node_policy=self._policy.node, cpu=job.cpu
        )
        names = self._names[candidates].tolist()
        if not job.cards:
            verdict = self._fleet.try_place(view, names)
        else:
            if self._policy.learns:
                self._fleet.set_pod(view)
            verdict = self._fleet.reserve(view, names, until=1)
        if not isinstance(verdict, FleetPlacement):
            return 0
        self._take(self._index[verdict.node], job)
        return job.asks

    def _plain_score(self, candidates: Ints) -> npt.NDArray[np.float64]:
        if self._policy.plain is Plain.SPREAD:
            spread: npt.NDArray[np.float64] = (self._cpu / self._all_cpu + self._memory / self._all_memory)[candidates]
            return spread
        packed: npt.NDArray[np.float64] = -(self._cards[candidates] / 8000 + self._cpu[candidates] / 128_000)
        return packed

    def _take(self, machine: int, job: Job) -> None:
        self._cpu[machine] -= job.cpu
        self._memory[machine] -= job.memory
        self._cards[machine] -= job.asks
        if not job.cards:
            self._bystanders[machine] += job.cpu
            self._fleet.set_bystanders(self._machines[machine].name, int(self._bystanders[machine]))

    def _request(self, job: Job) -> SliceRequest:
        """A card of the trace has 1000 MiB and 100 %, of which a part takes the same share."""
        part = job.milli < MILLI
        return SliceRequest(
            cards=max(1, job.cards),
            vram=Mib(job.milli) if part else None,
            cores=Percent(job.milli // 10) if part else Percent(0),
            wishes=CardWishes(models=job.models),
            card_policy=self._policy.card,
        )


def _card(machine: Machine, index: int) -> Card:
    return Card(CardUuid(f"{machine.name}-{index}"), index, machine.model, Mib(MILLI), split_count=_SLOTS)
