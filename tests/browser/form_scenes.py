"""The situations in which the spawn form is looked at: who sees which cards, profiles and last choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hami_hub.core.budgets import Budget, Refused
from hami_hub.core.cards import Card, CardState, CardUuid
from hami_hub.core.offers import offers, offers_within
from hami_hub.core.profiles import default_profiles, parse_profiles
from hami_hub.core.quota import Charge, parse_quota
from hami_hub.core.quota_words import why_refused
from hami_hub.core.slices import SliceId
from hami_hub.core.units import Mib, Percent
from hami_hub.spawner.form import FormContext, bills, budget_lines

T4 = Mib(15360)
H200 = Mib(143771)
NOW = 1_800_000_000.0


def card(index: int = 0, *, model: str = "Tesla T4", vram: Mib = T4, healthy: bool = True) -> Card:
    return Card(uuid=CardUuid(f"GPU-{index:08d}"), index=index, model=model, vram=vram, healthy=healthy)


def state(of: Card, *, taken: int = 0, cores: int = 0, slices: int = 0, exclusive: bool = False) -> CardState:
    return CardState(of, used_vram=Mib(taken), used_cores=Percent(cores), slices=slices, exclusive=exclusive)


def scene(*states: CardState, profiles=None, groups=(), chosen=None, problem: str = "") -> FormContext:
    profiles = default_profiles() if profiles is None else parse_profiles(profiles)
    return FormContext(tuple(states), offers(profiles, states, groups), chosen or {}, problem)


def charge(user: str, group: str, gib: int, cores: int = 0) -> Charge:
    return Charge(
        holder=SliceId(f"{user}/"), user=user, group=group, profile="gpu-4g", cards=1, vram=Mib(gib * 1024),
        cores=cores, since=0.0,
    )  # fmt: skip


def budget(group: str, *charges: Charge, **properties: object) -> Budget:
    """`vram_per_user="8GiB"` for the property hami.vram-per-user."""
    written = {f"hami.{key.replace('_', '-')}": value for key, value in properties.items()}
    quota, faults = parse_quota(written)
    return Budget(group, quota, charges, faults)


def why(refused: Refused) -> str:
    return why_refused(refused, now=NOW)


def paid(context: FormContext, user: str, *budgets: Budget) -> FormContext:
    """`context` for a person whose servers `budgets` pay for."""
    cards = [state.card for state in context.cards]
    profiles = [offer.profile for offer in context.offers]
    return replace(
        context,
        offers=offers_within(context.offers, budgets, user, cards, why),
        budgets=budget_lines(budgets, user, context.chosen.get("group", "")),
        bills=bills(profiles, budgets, user, cards, why),
    )


ML = budget(
    "ml", charge("olga", "ml", 4, 25), charge("bob", "ml", 6, 50), charge("eve", "ml", 2), vram="24GiB", cores="200",
    servers="6",
)  # fmt: skip
BIO = budget("bio101", charge("eve", "bio101", 6, 25), vram="8GiB", servers="3", vram_per_user="4GiB")
FULL = budget("thesis", charge("olga", "thesis", 8), vram="8GiB")
WRONG = budget("typo", vram="24GB")
GROUPED = [
    {"name": "cpu", "title": "CPU only", "gpu": False},
    {"name": "gpu-4g", "title": "4 GiB · 25 %", "vram": "4 GiB", "cores": 25},
    {"name": "lab", "title": "8 GiB · 50 %", "description": "For the course.", "vram": "8 GiB", "groups": ["bio101"]},
    {"name": "big", "title": "40 GiB", "description": "For large models.", "vram": "40 GiB"},
]
HOSTILE = [
    {
        "name": "cpu",
        "title": "<b>bold</b> {{ 7 * 7 }} {% raw %}",
        "description": '"quoted" <script>hit()</script>',
        "gpu": False,
    },
    {"name": "gpu-other", "title": "</label>", "vram": "2 GiB", "min_vram": "1 GiB"},
]
NO_DRIVER = "The NVIDIA driver doesn't answer, so no GPU can be had. Ask an admin to run `hami-hub doctor`."
MANY = [
    {"name": f"p{i}", "title": f"{i % 9 + 1} GiB · {i} %", "description": f"Course {i}.", "vram": f"{i % 9 + 1} GiB",
     "cores": i}
    for i in range(40)
]  # fmt: skip
_H200S = [card(i, model="NVIDIA H200", vram=H200, healthy=i != 7) for i in range(8)]

# Made anew for each look, in the language of whoever looks.
SCENES: dict[str, Callable[[], FormContext]] = {
    "alice": lambda: scene(state(card())),
    "bob": lambda: scene(state(card(), taken=4096, cores=25, slices=1)),
    "carol": lambda: scene(state(card(), taken=12288, cores=75, slices=2), chosen={"profile": "gpu-8g"}),
    "dora": lambda: scene(state(card(), taken=T4, cores=100, slices=1, exclusive=True)),
    "emil": lambda: scene(),
    "fritz": lambda: scene(problem=NO_DRIVER),
    "gina": lambda: scene(state(card(), taken=4096, slices=1), profiles=GROUPED),
    "hugo": lambda: scene(
        state(card(), taken=4096, slices=1), chosen={"profile": "gpu-other", "vram": "12 GB", "cores": "20"}
    ),
    "ines": lambda: scene(
        *(state(c, taken=i * 20000, slices=i) for i, c in enumerate(_H200S[:5])),
        state(_H200S[5], slices=1, exclusive=True),
        state(_H200S[6]),
        state(_H200S[7]),
    ),
    "jan": lambda: scene(state(card(0)), state(card(1, model="NVIDIA A10", vram=Mib(23028)), taken=20480, slices=3)),
    "olga": lambda: paid(scene(state(card(), taken=4096, cores=25, slices=1)), "olga", ML),
    "paul": lambda: paid(scene(state(card(), taken=4096, cores=25, slices=1)), "paul", BIO),
    "quinn": lambda: paid(scene(state(card(), taken=4096, cores=25, slices=1)), "olga", ML, BIO, WRONG, FULL),
    "ruth": lambda: paid(
        scene(state(card(), taken=4096, cores=25, slices=1)),
        "olga",
        budget("new", vram="9GiB"),
        budget("bio101", charge("eve", "bio101", 8), vram="8GiB"),
    ),
    "uma": lambda: paid(scene(state(card(), taken=4096, cores=25, slices=1)), "olga", ML, BIO),
    "wanda": lambda: scene(state(card(), taken=8192, cores=50, slices=2)),
    "rosa": lambda: paid(scene(state(card())), "rosa", budget("", vram_per_user="4GiB", servers_per_user="1")),
    "sam": lambda: paid(scene(state(card())), "sam", *(budget(f"group-{i:02d}", vram=f"{i}GiB") for i in range(1, 51))),
    "tina": lambda: scene(*(state(card(i), taken=i * 1400, slices=i) for i in range(10)), profiles=MANY),
    "mallory": lambda: paid(
        scene(
            state(card(0, model="<i>T4</i>")),
            profiles=HOSTILE,
            chosen={"profile": "gpu-other", "vram": '"><script>hit()</script>', "group": "<i>ml</i>"},
        ),
        "mallory",
        budget("<i>ml</i>", vram="9GiB"),
        budget('"><script>hit()</script>{{ 7 * 7 }}', vram="<b>24</b>"),
    ),
}
