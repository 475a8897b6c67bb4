"""The situations in which the spawn form is looked at: who sees which cards, profiles and last choice."""

from __future__ import annotations

from hami_hub.core.cards import Card, CardState, CardUuid
from hami_hub.core.offers import offers
from hami_hub.core.profiles import default_profiles, parse_profiles
from hami_hub.core.units import Mib, Percent
from hami_hub.spawner.form import FormContext

T4 = Mib(15360)
H200 = Mib(143771)


def card(index: int = 0, *, model: str = "Tesla T4", vram: Mib = T4, healthy: bool = True) -> Card:
    return Card(uuid=CardUuid(f"GPU-{index:08d}"), index=index, model=model, vram=vram, healthy=healthy)


def state(of: Card, *, taken: int = 0, cores: int = 0, slices: int = 0, exclusive: bool = False) -> CardState:
    return CardState(of, used_vram=Mib(taken), used_cores=Percent(cores), slices=slices, exclusive=exclusive)


def scene(*states: CardState, profiles=None, groups=(), chosen=None, problem: str = "") -> FormContext:
    profiles = default_profiles() if profiles is None else parse_profiles(profiles)
    return FormContext(tuple(states), offers(profiles, states, groups), chosen or {}, problem)


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
_H200S = [card(i, model="NVIDIA H200", vram=H200, healthy=i != 7) for i in range(8)]

SCENES = {
    "alice": scene(state(card())),
    "bob": scene(state(card(), taken=4096, cores=25, slices=1)),
    "carol": scene(state(card(), taken=12288, cores=75, slices=2), chosen={"profile": "gpu-8g"}),
    "dora": scene(state(card(), taken=T4, cores=100, slices=1, exclusive=True)),
    "emil": scene(),
    "fritz": scene(problem=NO_DRIVER),
    "gina": scene(state(card(), taken=4096, slices=1), profiles=GROUPED),
    "hugo": scene(state(card(), taken=4096, slices=1), chosen={"profile": "gpu-other", "vram": "12 GB", "cores": "20"}),
    "ines": scene(
        *(state(c, taken=i * 20000, slices=i) for i, c in enumerate(_H200S[:5])),
        state(_H200S[5], slices=1, exclusive=True),
        state(_H200S[6]),
        state(_H200S[7]),
    ),
    "jan": scene(state(card(0)), state(card(1, model="NVIDIA A10", vram=Mib(23028)), taken=20480, slices=3)),
    "mallory": scene(
        state(card(0, model="<i>T4</i>")),
        profiles=HOSTILE,
        chosen={"profile": "gpu-other", "vram": '"><script>hit()</script>'},
    ),
}
