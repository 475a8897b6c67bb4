"""What the form's script is given: what each profile costs, and the sentences that it fills in.

The script adds comfort (a preview of the budget, the form kept up to date); it decides nothing and has no words of its
own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from ...core.language import say
from ...core.offers import Offer
from ...core.units import parse_vram
from .budgets import Bill

# With more groups than these their refusals are left to the answer to Start: the page stays small.
_GROUPS_WITH_REASONS = 8
_UNITS = ("", "M", "Mi", "MiB", "Gi", "GiB", "Ti", "TiB")


def live_data(offers: Sequence[Offer], bills: Mapping[str, Bill], groups: int) -> str:
    """JSON: `profiles` by name, `units` of VRAM in MiB, and `words`, templates with {names}."""
    profiles = {
        str(offer.profile.name): _profile(offer, bills.get(offer.profile.name), groups)
        for offer in offers
        if offer.profile.request is not None
    }
    units = {unit.lower(): int(parse_vram(f"1{unit}")) for unit in _UNITS}
    return json.dumps({"profiles": profiles, "units": units, "words": _words()}, ensure_ascii=False)


def _profile(offer: Offer, bill: Bill | None, groups: int) -> dict[str, object]:
    known: dict[str, object] = {
        "cards": offer.profile.request.cards if offer.profile.request else 0,
        "vram": offer.charged.vram,
        "cores": offer.charged.cores,
    }
    if bill is None:
        return known
    with_reasons = groups <= _GROUPS_WITH_REASONS
    refusals = {group: reason if with_reasons else "" for group, reason in bill.refusals.items()}
    return {**known, "payer": bill.payer, "refusals": refusals}


def _words() -> dict[str, str]:
    """Sentences whose values only the script knows: each name stands for itself."""
    names = ("amount", "left", "over", "most", "least", "fits", "profile", "result", "group", "time")
    hole = {name: f"{{{name}}}" for name in names}
    return {
        "takes": say("Your choice takes {amount} and leaves {left}.", **hole),
        "exceeds": say("Your choice takes {amount}, that is {over} too much.", **hole),
        "leads": say("{profile}: {result}.", **hole),
        "pays": say("{group} pays.", **hole),
        "refused": say("{group} can't pay for this now.", **hole),
        "no_amount": say("This is not an amount of VRAM. Write it like 4 GiB or 4096 MiB."),
        "too_little": say("{amount} is less than this profile allows. Ask for {least} or more.", **hole),
        "too_much": say("{amount} can never fit here. Ask for {most} or less.", **hole),
        "waits": say("{amount} has to wait; {fits} or less starts now.", **hole),
        "waits_all": say("{amount} has to wait, none of it is free now.", **hole),
        "starts": say("{amount} starts now.", **hole),
        "no_match": say("No profile has this in its name."),
        "stale": say("The hub doesn't answer. What you see is from {time}.", **hole),
        "gone": say("This page is out of date: you are logged out, or your server has been started elsewhere."),
        "reload": say("Reload the page"),
    }
