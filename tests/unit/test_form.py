"""The spawn form: what is shown, checked and greyed out, and what a posted form comes to."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import Environment

from hami_hub.core.cards import Card, CardState, CardUuid
from hami_hub.core.offers import offers, offers_on_nodes, unknown_offers
from hami_hub.core.profiles import ChoiceError, choose, default_profiles, parse_profiles
from hami_hub.core.units import Mib, Percent
from hami_hub.spawner.form import FormContext, parse_form, render_form
from hami_hub.spawner.form.cardlines import card_lines
from hami_hub.spawner.form.view import form_view

NO_GPU = "The driver doesn't answer. Run `hami-hub doctor`."
UNKNOWN = "What is free on the GPUs is not known now: the GPU scheduler doesn't answer."
CLOSED = [
    {"name": "cpu", "title": "CPU only", "gpu": False},
    {"name": "small", "vram": "1 GiB"},
    {"name": "lab", "vram": "2 GiB", "groups": ["bio101"]},
    {"name": "huge", "vram": "40 GiB"},
]


def state(taken=0, *, cores=0, slices=0, index=0, vram=15360, model="Tesla T4", healthy=True, exclusive=False):
    card = Card(uuid=CardUuid(f"GPU-{index}"), index=index, model=model, vram=Mib(vram), healthy=healthy)
    return CardState(card, Mib(taken), Percent(cores), slices or bool(taken or exclusive), exclusive)


def context(*states, profiles=None, groups=(), chosen=None, problem=""):
    profiles = default_profiles() if profiles is None else parse_profiles(profiles)
    return FormContext(states, offers(profiles, states, groups), chosen or {}, problem)


def of_cluster(nodes, profiles=None, chosen=None):
    """What is shown of several machines, by name."""
    profiles = default_profiles() if profiles is None else parse_profiles(profiles)
    cards = tuple(chain(*nodes.values()))
    return FormContext(cards, offers_on_nodes(profiles, nodes), chosen or {}, nodes=tuple(nodes.values()))


def of_nobody_knows(profiles=None, chosen=None):
    profiles = default_profiles() if profiles is None else parse_profiles(profiles)
    return FormContext((), unknown_offers(profiles), chosen or {}, UNKNOWN)


class Page(HTMLParser):
    """The form's elements: every start tag with its attributes, and all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag, **wanted):
        return [a for t, a in self.tags if t == tag and all(a.get(k) == v for k, v in wanted.items())]

    @property
    def radios(self):
        return {a["value"]: a for a in self.all("input", type="radio")}

    @property
    def checked(self):
        return [name for name, a in self.radios.items() if "checked" in a]

    @property
    def disabled(self):
        return {name for name, a in self.radios.items() if "disabled" in a}


def page(*args, **kwargs) -> Page:
    return Page(render_form(context(*args, **kwargs)))


def badges(ctx: FormContext) -> dict[str, str]:
    return {line.name: line.badge.text for line in form_view(ctx).profiles}


@pytest.mark.parametrize(
    ("ctx", "expected"),
    [
        pytest.param(
            context(state()),
            {"cpu": "Starts now", "gpu-2g": "Starts now", "gpu-4g": "Starts now", "gpu-8g": "Starts now",
             "gpu-whole": "Starts now", "gpu-other": "Starts now"},
            id="empty card",
        ),
        pytest.param(
            context(state(12288, cores=75)),
            {"cpu": "Starts now", "gpu-2g": "Starts now", "gpu-4g": "Waits", "gpu-8g": "Waits",
             "gpu-whole": "Waits", "gpu-other": "Up to 3 GiB now"},
            id="3 GiB left",
        ),
        pytest.param(
            context(state(exclusive=True)),
            {"cpu": "Starts now", "gpu-2g": "Waits", "gpu-4g": "Waits", "gpu-8g": "Waits", "gpu-whole": "Waits",
             "gpu-other": "Waits"},
            id="taken whole",
        ),
        pytest.param(
            context(state(15360 - 255)),
            {"cpu": "Starts now", "gpu-2g": "Waits", "gpu-4g": "Waits", "gpu-8g": "Waits", "gpu-whole": "Waits",
             "gpu-other": "Waits"},
            id="less left than the smallest amount",
        ),
        pytest.param(
            context(state(), problem=NO_GPU),
            {"cpu": "Starts now", "gpu-2g": "No GPU", "gpu-4g": "No GPU", "gpu-8g": "No GPU", "gpu-whole": "No GPU",
             "gpu-other": "No GPU"},
            id="driver broken",
        ),
        pytest.param(
            context(),
            {"cpu": "Starts now", "gpu-2g": "No GPU", "gpu-4g": "No GPU", "gpu-8g": "No GPU", "gpu-whole": "No GPU",
             "gpu-other": "No GPU"},
            id="no card",
        ),
        pytest.param(
            context(state(), profiles=CLOSED),
            {"cpu": "Starts now", "small": "Starts now", "lab": "Not yours", "huge": "Never fits"},
            id="closed and too large",
        ),
        pytest.param(
            context(profiles=CLOSED),
            {"cpu": "Starts now", "small": "No GPU", "lab": "Not yours", "huge": "No GPU"},
            id="closed, and no card",
        ),
    ],
)  # fmt: skip
def test_each_profile_says_what_picking_it_leads_to(ctx, expected):
    assert badges(ctx) == expected
    shown = Page(render_form(ctx))
    never = {name for name, text in expected.items() if text in {"No GPU", "Not yours", "Never fits"}}
    assert shown.disabled == never
    for text in expected.values():
        assert text in shown.text


@pytest.mark.parametrize(
    ("ctx", "checked"),
    [
        pytest.param(context(state()), "cpu", id="first by default"),
        pytest.param(context(state(), chosen={"profile": "gpu-4g"}), "gpu-4g", id="last choice"),
        pytest.param(context(state(12288), chosen={"profile": "gpu-8g"}), "gpu-8g", id="last choice that waits"),
        pytest.param(context(state(), chosen={"profile": "gone"}), "cpu", id="last choice no longer offered"),
        pytest.param(context(state(), profiles=CLOSED, chosen={"profile": "lab"}), "cpu", id="last choice closed"),
        pytest.param(context(state(), profiles=CLOSED, chosen={"profile": "huge"}), "cpu", id="last choice never fits"),
        pytest.param(context(chosen={"profile": "gpu-4g"}), "cpu", id="last choice has no card"),
        pytest.param(context(state(), problem=NO_GPU, chosen={"profile": "gpu-4g"}), "cpu", id="driver broken"),
        pytest.param(context(state(), profiles=CLOSED[2:0:-1]), "small", id="first one is closed"),
        pytest.param(context(state(), profiles=CLOSED[2:3]), None, id="nothing can be picked"),
    ],
)
def test_one_profile_is_checked_and_never_one_that_is_greyed_out(ctx, checked):
    shown = Page(render_form(ctx))
    assert shown.checked == ([checked] if checked else [])
    assert not set(shown.checked) & shown.disabled


def test_the_reason_stands_beside_a_profile_and_is_tied_to_it():
    shown = page(state(12288, cores=75))
    assert "8 GiB · 50 % is not free now: the Tesla T4 has 3 GiB free, 8 GiB are asked for." in shown.text
    ids = {a["id"] for _, a in shown.tags if "id" in a}
    described = [a["aria-describedby"].split() for _, a in shown.tags if "aria-describedby" in a]
    assert len(described) == 6 + 2
    assert set(chain(*described)) <= ids


def test_the_reason_why_there_is_no_gpu_is_said_once_and_tied_to_every_profile_it_closes():
    shown = page(state(), problem=NO_GPU)
    assert shown.text.count("The driver doesn't answer.") == 1
    assert shown.all("code")
    blamed = {name for name, a in shown.radios.items() if "hami-problem" in a["aria-describedby"].split()}
    assert blamed == shown.disabled == set(shown.radios) - {"cpu"}


def test_without_a_card_the_cores_own_reason_stands_above():
    assert "This machine has no GPU." in page().text
    assert page().text.count("This machine has no GPU.") == 1


def test_a_hub_without_gpu_profiles_says_nothing_of_gpus():
    shown = page(state(), profiles=CLOSED[:1], problem=NO_GPU)
    assert "GPU" not in shown.text
    assert shown.checked == ["cpu"]


def test_every_control_has_a_name():
    shown = page(state(12288), chosen={"profile": "gpu-other"})
    labelled = {a["for"] for a in shown.all("label")}
    controls = [a["id"] for a in shown.all("input")]
    assert len(controls) == len(set(controls)) == 6 + 2
    assert labelled == set(controls)
    assert shown.all("fieldset")
    assert "Profile" in shown.text


HOSTILE = '"><script>hit()</script>{{ 7*7 }}{% if x %}{# note'


@pytest.mark.parametrize("where", ["title", "description", "group", "model", "problem", "chosen"])
def test_text_of_admins_and_users_stays_text(where):
    profile = {"name": "free", "title": "Free", "vram": "2 GiB", "min_vram": "1 GiB", "description": "d"}
    lab = {"name": "lab", "vram": "1 GiB", "groups": ["x"]}
    chosen = {"profile": "free", "vram": "1 GiB"}
    card = state(14336, model=HOSTILE if where == "model" else "T4")
    if where in profile:
        profile[where] = HOSTILE
    if where == "group":
        lab["groups"] = [HOSTILE]
    if where == "chosen":
        chosen["vram"] = HOSTILE
    html = render_form(
        context(card, profiles=[profile, lab], chosen=chosen, problem=HOSTILE if where == "problem" else "")
    )
    shown = Page(html)
    assert len(shown.all("script")) == 1
    values = " ".join(a.get("value") or "" for a in shown.all("input"))
    assert HOSTILE.casefold() in (shown.text + values).casefold()
    assert "{{" not in html
    assert "{%" not in html
    assert "{#" not in html
    # KubeSpawner's hub renders a form once more as a template: that must not change it.
    assert Environment(autoescape=True).from_string(html).render() == html.rstrip("\n")


def amounts(ctx, profile="gpu-other"):
    return next(line.amounts for line in form_view(ctx).profiles if line.name == profile)


@pytest.mark.parametrize(
    ("ctx", "value", "hint"),
    [
        pytest.param(context(state()), "6 GiB", "256 MiB to 15 GiB.", id="all free"),
        pytest.param(context(state(4096)), "6 GiB", "256 MiB to 15 GiB; 11 GiB or less fits now.", id="preset fits"),
        pytest.param(context(state(12000)), "3 GiB", "256 MiB to 15 GiB; 3360 MiB or less fits now.", id="round fit"),
        pytest.param(context(state(14860)), "500 MiB", "256 MiB to 15 GiB; 500 MiB or less fits now.", id="small fit"),
        pytest.param(
            context(state(exclusive=True)), "6 GiB", "256 MiB to 15 GiB; none of it is free now.", id="nothing free"
        ),
        pytest.param(
            context(state(), state(index=1, vram=81920, healthy=False)), "6 GiB", "256 MiB to 15 GiB.", id="broken card"
        ),
        pytest.param(
            context(state(4096), chosen={"profile": "gpu-other", "vram": "700 MiB"}),
            "700 MiB",
            "256 MiB to 15 GiB; 11 GiB or less fits now.",
            id="last choice",
        ),
        pytest.param(
            context(state(), chosen={"profile": "gpu-4g", "vram": "1 GiB"}), "6 GiB", "256 MiB to 15 GiB.",
            id="amount chosen for another profile",
        ),
    ],
)  # fmt: skip
def test_a_free_amount_is_preset_to_what_fits_and_says_what_may_be_typed(ctx, value, hint):
    vram, _ = amounts(ctx)
    assert (vram.value, vram.hint) == (value, hint)


def test_where_each_of_two_cards_is_asked_for_the_fuller_one_counts():
    two = [{"name": "two", "cards": 2, "vram": "8 GiB", "min_vram": "1 GiB"}]
    ctx = context(state(4096), state(10240, index=1), profiles=two)
    assert badges(ctx) == {"two": "Up to 5 GiB now"}
    assert amounts(ctx, "two")[0].hint == "1 GiB to 15 GiB; 5 GiB or less fits now."


def test_what_is_preset_is_an_amount_that_the_profile_takes():
    for taken in range(0, 15361, 97):
        vram, cores = amounts(context(state(taken)))
        assert choose(default_profiles(), {"profile": "gpu-other", "vram": vram.value, "cores": cores.value})


@pytest.mark.parametrize(
    ("chosen", "vram_error", "cores_error"),
    [
        ({"vram": "six"}, '"six" is not an amount', ""),
        ({"vram": "12 GB"}, "decimal unit", ""),
        ({"vram": "1 MiB"}, "less than this profile allows", ""),
        ({"vram": "100 GiB"}, "100 GiB can never fit here", ""),
        ({"vram": "15 GiB"}, "", ""),
        ({"cores": "101"}, "", "not a percentage"),
        ({"vram": "-1", "cores": "٣"}, "not an amount", "not a percentage"),
        ({"vram": "1 GiB", "cores": "0"}, "", ""),
    ],
)
def test_what_was_wrong_the_last_time_stands_beside_its_field(chosen, vram_error, cores_error):
    ctx = context(state(1024), chosen={"profile": "gpu-other", **chosen})
    vram, cores = amounts(ctx)
    assert vram_error in vram.error
    assert bool(vram_error) == bool(vram.error)
    assert cores_error in cores.error
    assert bool(cores_error) == bool(cores.error)
    invalid = Page(render_form(ctx)).all("input", **{"aria-invalid": "true"})
    assert len(invalid) == bool(vram_error) + bool(cores_error)


TWO = [{"name": "two", "title": "Two cards", "cards": 2, "vram": "1 GiB", "min_vram": "1 GiB"}]


def test_several_cards_have_to_be_on_one_machine():
    nodes = {"a": (state(12288), state(3072, index=1)), "b": (state(1024, index=2),)}
    assert badges(of_cluster(nodes, TWO)) == {"two": "Starts now"}
    vram, _ = amounts(of_cluster(nodes, TWO), "two")
    assert vram.hint == "1 GiB to 15 GiB; 3 GiB or less fits now."
    apart = {"a": (state(),), "b": (state(index=1),)}
    assert badges(of_cluster(apart, TWO)) == {"two": "Waits"}


def test_an_amount_that_one_machine_of_several_could_hold_is_no_error():
    nodes = {"a": (state(),), "b": (state(vram=24576, model="A10", index=1, taken=24576),)}
    chosen = {"profile": "gpu-other", "vram": "20 GiB"}
    vram, _ = amounts(of_cluster(nodes, chosen=chosen))
    assert not vram.error
    vram, _ = amounts(of_cluster(nodes, chosen={**chosen, "vram": "40 GiB"}))
    assert "40 GiB can never fit here" in vram.error
    assert "24 GiB" in vram.error


def test_where_nobody_knows_what_is_free_everything_can_be_picked_and_it_is_said_why():
    shown = Page(render_form(of_nobody_knows(chosen={"profile": "gpu-4g"})))
    assert UNKNOWN in shown.text
    assert shown.disabled == set()
    assert shown.checked == ["gpu-4g"]
    assert badges(of_nobody_knows())["gpu-4g"] == "May wait"
    assert badges(of_nobody_knows())["cpu"] == "Starts now"
    vram, cores = amounts(of_nobody_knows(chosen={"profile": "gpu-other", "vram": "x"}))
    assert vram.hint == "256 MiB or more."
    assert '"x" is not an amount of VRAM' in vram.error
    assert "free now" not in cores.hint


def test_a_profile_with_a_fixed_amount_has_no_fields():
    assert amounts(context(state()), "gpu-4g") == ()


@pytest.mark.parametrize(
    ("states", "texts"),
    [
        pytest.param((state(4096),), ["Tesla T4, 15 GiB, 11 GiB free"], id="one"),
        pytest.param(tuple(state(index=i) for i in range(4)), ["Tesla T4, 15 GiB, all free"] * 4, id="four equal"),
        pytest.param(
            (*(state(index=i) for i in range(3)), state(4096, index=3), state(14336, index=4),
             state(exclusive=True, index=5), state(index=6, healthy=False), state(index=7, model="A10", vram=23028)),
            ["7 × Tesla T4, 15 GiB each: 3 all free, 2 with up to 11 GiB free, 1 taken, 1 out of order",
             "A10, 22.4 GiB, all free"],
            id="many",
        ),
    ],
)  # fmt: skip
def test_cards_stand_on_a_line_each_or_in_groups_where_there_are_many(states, texts):
    assert [line.text for line in card_lines(states)] == texts
    assert sum(len(line.bars) for line in card_lines(states)) == len(states)


@pytest.mark.parametrize(
    ("of", "taken"),
    [(state(), 0), (state(1), 1), (state(7680), 50), (state(15360), 100), (state(20000), 100),
     (state(exclusive=True), 100), (state(vram=0), 0)],
)  # fmt: skip
def test_a_bar_shows_what_is_taken(of, taken):
    bar = card_lines((of,))[0].bars[0]
    assert (bar.taken, bar.healthy) == (taken, True)


@pytest.mark.parametrize(
    ("formdata", "options"),
    [
        pytest.param({}, {}, id="empty"),
        pytest.param({"profile": []}, {}, id="no value"),
        pytest.param({"profile": [""]}, {}, id="empty value"),
        pytest.param({"profile": ["gpu-4g"]}, {"profile": "gpu-4g"}, id="profile only"),
        pytest.param({"profile": [" cpu\n"]}, {"profile": "cpu"}, id="blanks"),
        pytest.param({"profile": ["cpu", "gpu-4g"]}, {"profile": "cpu"}, id="repeated"),
        pytest.param(
            {"profile": ["o"], "profile-option-o--vram": ["6 GiB"], "profile-option-o--cores": ["10"]},
            {"profile": "o", "vram": "6 GiB", "cores": "10"},
            id="amounts",
        ),
        pytest.param(
            {"profile": ["cpu"], "profile-option-o--vram": ["6 GiB"]}, {"profile": "cpu"}, id="another's amounts"
        ),
        pytest.param({"profile": ["o"], "profile-option-o--vram": [" "]}, {"profile": "o"}, id="amount left empty"),
        pytest.param({"profile-option---vram": ["6 GiB"], "vram": ["1"]}, {}, id="amounts without a profile"),
        pytest.param({"profile": ["o"], "vram": ["1 GiB"], "_xsrf": ["2|x"]}, {"profile": "o"}, id="unknown fields"),
        pytest.param({"profile": None, "x": [None]}, {}, id="not a list"),
        pytest.param({"profile": [{"body": b"x"}]}, {}, id="a file"),
    ],
)
def test_a_posted_form_comes_to_options(formdata, options):
    assert parse_form(formdata) == options


def test_what_is_too_long_is_cut_and_still_refused():
    options = parse_form({"profile": ["gpu-other"], "profile-option-gpu-other--vram": ["9" * 10**6]})
    assert len(options["vram"]) < 1000
    with pytest.raises(ChoiceError):
        choose(default_profiles(), options)


_values = st.one_of(
    st.none(), st.text(), st.integers(), st.lists(st.one_of(st.text(), st.none(), st.binary(), st.integers()))
)
_names = st.one_of(
    st.text(), st.sampled_from(["profile", "profile-option-gpu-other--vram", "profile-option-gpu-other--cores"])
)


@given(st.dictionaries(_names, _values))
def test_no_posted_form_makes_it_fail(formdata):
    options = parse_form(formdata)
    assert set(options) <= {"profile", "vram", "cores"}
    assert all(isinstance(value, str) and value for value in options.values())


@given(st.text(min_size=1), st.text(), st.text())
def test_no_last_choice_makes_the_form_fail(profile, vram, cores):
    for name in (profile, "gpu-other"):
        shown = page(state(4096), chosen={"profile": name, "vram": vram, "cores": cores})
        assert len(shown.checked) == 1
        assert len(shown.all("script")) == 1
