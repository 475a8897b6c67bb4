"""The dashboard of the chart asks only for what our exporters show, and is a dashboard that Grafana can load."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from .exporters import hub_page, plugin_page, scheduler_page

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "helm/hami-hub/files/grafana-dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
EXPRESSIONS = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]
BY_TITLE = pytest.mark.parametrize(("title", "target"), EXPRESSIONS, ids=[title for title, _ in EXPRESSIONS])

_SELECTOR = re.compile(r"\b(hami_[a-z_]+)(?:\{([^}]*)\})?")
_BY = re.compile(r"\bby \(([^)]*)\)")
_MATCHER = re.compile(r'([a-z_]+)\s*(?:=~|!~|!=|=)\s*"[^"]*"')
_GRAFANAS = {"$__rate_interval", "$__range"}


@dataclass(frozen=True, slots=True)
class Shown:
    """Samples that there can be: their labels, and whether they only grow."""

    labels: frozenset[str]
    grows: bool


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Shown]:
    found: dict[str, Shown] = {}
    for page in (hub_page(), asyncio.run(scheduler_page()), plugin_page(tmp_path_factory.mktemp("slices"))):
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                found[sample.name] = Shown(frozenset(sample.labels), family.type in ("counter", "histogram"))
    return found


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Each metric in an expression, and the labels that it is selected by."""
    for name, matchers in _SELECTOR.findall(expression):
        yield name, set(_MATCHER.findall(matchers))


@BY_TITLE
def test_it_asks_for_what_is_shown(title: str, target: dict[str, Any], samples: Mapping[str, Shown]) -> None:
    asked = list(selectors(target["expr"]))
    assert asked
    for name, labels in asked:
        assert name in samples, f"nobody shows {name}"
        assert labels <= samples[name].labels


@BY_TITLE
def test_what_it_sums_by_is_there_and_named(title: str, target: dict[str, Any], samples: Mapping[str, Shown]) -> None:
    kept: set[str] = set()
    shown: set[str] = set().union(*(samples[name].labels for name, _ in selectors(target["expr"])))
    for labels in _BY.findall(target["expr"]):
        kept |= {label.strip() for label in labels.split(",")}
    assert kept <= shown
    assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= kept - {"le"}


@BY_TITLE
def test_counters_are_asked_for_their_growth_and_gauges_for_their_value(
    title: str, target: dict[str, Any], samples: Mapping[str, Shown]
) -> None:
    for name, _ in selectors(target["expr"]):
        grows = re.search(rf"(rate|increase)\({name}(\{{[^}}]*\}})?\[", target["expr"]) is not None
        assert grows == samples[name].grows, name


@BY_TITLE
def test_its_brackets_close_and_its_variables_are_declared(title: str, target: dict[str, Any]) -> None:
    expression = target["expr"]
    for one, other in ("()", "{}", "[]"):
        assert expression.count(one) == expression.count(other)
    used = set(re.findall(r"\$\w+", expression))
    assert used - _GRAFANAS <= {f"${name}" for name in VARIABLES}


def test_the_variables_ask_for_what_is_shown(samples: Mapping[str, Shown]) -> None:
    for name in ("group", "node"):
        metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", VARIABLES[name]["definition"]).groups()  # type: ignore[union-attr]
        assert label in samples[metric].labels
    assert VARIABLES["datasource"]["query"] == "prometheus"


def test_every_panel_is_told_apart_and_says_what_it_is() -> None:
    for key in ("id", "title"):
        values = [panel[key] for panel in DASHBOARD["panels"]]
        assert len(set(values)) == len(values)
    for panel in PANELS:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


def test_no_panel_lies_on_another() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] >= 0
        assert at["x"] + at["w"] <= 24
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]


def test_the_documentation_names_every_metric_of_the_hub() -> None:
    shown = {family.name for family in text_string_to_metric_families(hub_page())}
    counters = {family.name for family in text_string_to_metric_families(hub_page()) if family.type == "counter"}
    expected = {f"{name}_total" if name in counters else name for name in shown if not name.endswith("_created")}
    documented = set(re.findall(r"^\| `(hami_hub_\w+)`", (ROOT / "docs/usage.md").read_text(), re.MULTILINE))
    assert documented == expected
