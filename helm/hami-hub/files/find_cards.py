"""`helm test`: which nodes offer cards, and why the others don't.  Fails when none does.

Runs in a pod with the standard library only.  What the release is like comes by environment variables.
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.request
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
API_SERVER = "https://kubernetes.default.svc"


def ask(url: str, ca: Path) -> Any:
    token = (ACCOUNT / "token").read_text()
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=10, context=ssl.create_default_context(cafile=ca)) as answer:  # noqa: S310
        return json.load(answer)


def tolerates(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    same_key = toleration.get("key", "") in ("", taint["key"])
    same_effect = toleration.get("effect", "") in ("", taint["effect"])
    any_value = toleration.get("operator", "Equal") == "Exists"
    return same_key and same_effect and (any_value or toleration.get("value", "") == taint.get("value", ""))


def why_none(node: dict[str, Any], *, selector: dict[str, str], tolerations: list[dict[str, Any]], plugin: str) -> str:
    """Why a node offers no card, with what to do."""
    name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in selector.items()):
        wanted = " ".join(f"{key}={value}" for key, value in selector.items())
        return f"{name} isn't labelled: kubectl label node {name} {wanted}"
    for taint in node["spec"].get("taints", ()):
        repelled = taint["effect"] in ("NoSchedule", "NoExecute")
        if repelled and not any(tolerates(each, taint) for each in tolerations):
            words = f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
            return (
                f"{name} has the taint {words}, which devicePlugin.tolerations doesn't bear: "
                f"add {{key: {taint['key']}, operator: Exists, effect: {taint['effect']}}} there."
            )
    return f"{name} should have the device plugin, which tells of no card: kubectl logs {plugin} says more."


def main() -> int:
    inventory = ask(f"{os.environ['INVENTORY']}/v1/inventory", Path("/certificate/ca.crt"))
    nodes = ask(f"{API_SERVER}/api/v1/nodes", ACCOUNT / "ca.crt")["items"]
    cards = {
        node["name"]: [card["model"] for card in node["cards"] if card["healthy"]]
        for node in inventory["nodes"]
        if node["ready"]
    }
    selector, tolerations = json.loads(os.environ["SELECTOR"]), json.loads(os.environ["TOLERATIONS"])
    for node in nodes:
        offered = cards.get(node["metadata"]["name"])
        if offered:
            print(f"{node['metadata']['name']}: {', '.join(offered)}")
        else:
            print(why_none(node, selector=selector, tolerations=tolerations, plugin=os.environ["DEVICE_PLUGIN"]))
    if not any(cards.values()):
        print("No node offers a card.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
