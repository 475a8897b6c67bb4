"""The API server takes what the chart renders, with every set of values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.hami import Hami
from tests.cluster.test_chart_values import VALUE_SETS, render

# of operators that this cluster doesn't have
FOREIGN = ("cert-manager.io/", "monitoring.coreos.com/")


@pytest.mark.parametrize("values", VALUE_SETS.values(), ids=VALUE_SETS)
def test_the_api_server_takes_it(hami: Hami, space: str, values: list[str]) -> None:
    objects = [each for each in render(*values, release="other") if not each["apiVersion"].startswith(FOREIGN)]
    for each in objects:
        move(each, space)
    items = {"apiVersion": "v1", "kind": "List", "items": objects}
    result = hami.cluster.kubectl_run(
        "create", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f", "-", stdin=json.dumps(items)
    )
    assert result.returncode == 0, result.stderr


def move(each: dict[str, Any], space: str) -> None:
    """Into a namespace that is there; a hub's is one too.  Nothing is made, so there is no account for pods either."""
    if "namespace" in each["metadata"]:
        each["metadata"]["namespace"] = space
    if each["kind"] == "Pod":
        each["spec"]["serviceAccountName"] = "default"
