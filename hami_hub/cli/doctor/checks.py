"""The checks, from the driver up to the slice.  They judge what a `Machine` answers and do nothing themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from ...cards import NoCardsError
from ...core.cards import Card
from ...core.units import Mib, format_gib, format_vram
from ...native import NativeMissingError
from ...slicepage import CardView, PageError, SliceView, read_slice
from .findings import Finding, good, left_out, wrong
from .machine import Machine

_SAMPLE = Mib(256)
_REINSTALL = "Reinstall it: pip install --force-reinstall hami-hub"

Reader = Callable[[Path], SliceView]


def check_cards(machine: Machine) -> Iterator[Finding]:
    """Driver, NVML, and every card."""
    try:
        driver = machine.driver()
        cards = machine.cards()
    except NoCardsError as error:
        yield wrong("driver", str(error), "Without cards: hami-hub demo --simulated")
        return
    yield good("driver", f"simulated, as {driver}" if machine.simulated() else driver)
    if not cards:
        yield wrong("cards", "The driver has no card.", "See `lspci | grep -i nvidia`, and `dmesg` for what failed.")
    for card in cards:
        text = f"{card.index}: {card.model}, {format_gib(card.vram)}, {card.uuid}"
        if card.healthy:
            yield good("card", text)
        else:
            yield wrong(
                "card", f"{text} doesn't answer.", "See `dmesg` for its XID, then reset the card or the machine."
            )


def check_limiter(machine: Machine) -> Iterator[Finding]:
    """The limiter: there, can be preloaded, holds a slice."""
    try:
        limiter = machine.limiter()
    except NativeMissingError as error:
        yield wrong("limiter", str(error), _REINSTALL)
        return
    complaint = machine.preload(limiter)
    if complaint:
        yield wrong("limiter", f"{limiter} can't be preloaded: {_first_line(complaint)}", _REINSTALL)
        return
    yield good("limiter", f"{limiter} can be preloaded")
    cards = _healthy(machine)
    if machine.slice_directory() is not None:
        return  # `check_slice` looks at that one
    if cards:
        yield _tried_slice(machine, limiter, cards[0])
    else:
        yield left_out("limit", "No card to try a slice on.")


def check_slice(machine: Machine, read: Reader = read_slice) -> Iterator[Finding]:
    """The slice that this process is in: its page, and whether the limiter is at work."""
    directory = machine.slice_directory()
    if directory is None:
        yield left_out("slice", "This process is in no slice.")
        return
    try:
        view = read(directory)
    except PageError as error:
        yield wrong("slice", str(error), "Stop the server and start it again.")
        return
    if not view.cards:
        yield good("slice", f"{view.name or directory}: no card may be used")
    for card in view.cards:
        yield good("slice", _describe(view, card))
    if not machine.limiter_is_loaded():
        advice = (
            "Start the server again." if machine.slice_is_mounted() else "Don't remove LD_PRELOAD from the environment."
        )
        yield wrong("preload", "The limiter is not loaded in this process, the slice doesn't hold here.", advice)
        return
    yield good("preload", "loaded in this process")
    yield from (_shown_limit(card, machine.total_here(card.uuid)) for card in view.cards)


def check_python(machine: Machine) -> Iterator[Finding]:
    """The environment: what is installed of that which is optional, and what is missing because of it."""
    yield good("python", machine.python())
    for distribution, extra, use in (
        ("jupyterhub", "", "no hub"),
        ("jupyterlab", "notebook", "no JupyterLab in servers"),
        ("configurable-http-proxy", "demo", "no `hami-hub demo`"),
        ("cuda-bindings", "notebook", "no validation notebooks without torch"),
        ("jupyterhub-systemdspawner", "systemd", "no spawner hami-systemd"),
        ("torch", "torch", "notebooks use the driver's API"),
    ):
        version = machine.package(distribution)
        if version is not None:
            yield good("package", f"{distribution} {version}")
        elif not extra:
            yield wrong("package", f"{distribution} is not installed: {use}.", _REINSTALL)
        else:
            yield left_out("package", f"{distribution} is not installed: {use} (pip install 'hami-hub[{extra}]')")


def check_systemd(machine: Machine) -> Iterator[Finding]:
    """Whether the spawner that holds everybody to their slice can be used."""
    if not machine.systemd_runs():
        yield left_out("systemd", "This machine isn't run by systemd: no spawner hami-systemd.")
    elif machine.package("jupyterhub-systemdspawner") is None:
        yield left_out("systemd", "It runs. For the spawner hami-systemd: pip install 'hami-hub[systemd]'")
    else:
        yield good("systemd", "runs, hami-systemd can be used")


def check_port(machine: Machine, port: int) -> Iterator[Finding]:
    """Whether the hub can listen where it is to listen."""
    why = machine.why_not_port(port)
    if why is None:
        yield good("port", f"{port} is free")
    elif version := machine.hub_on(port):
        yield good("port", f"{port} is used by a JupyterHub {version} that runs")
    else:
        free = machine.next_free_port(port)
        advice = f"Use another, {free} is free." if free else "Use another."
        yield wrong("port", f"{port} {why}.", advice)


def _tried_slice(machine: Machine, limiter: Path, card: Card) -> Finding:
    shown, complaint = machine.total_in_slice(limiter, card, _SAMPLE)
    if shown == _SAMPLE:
        return good("limit", f"A process in a slice of {format_vram(_SAMPLE)} sees {format_vram(_SAMPLE)}")
    if shown is None:
        return wrong("limit", f"A process in a slice fails: {_last_line(complaint)}", _REINSTALL)
    return wrong(
        "limit",
        f"A process in a slice of {format_vram(_SAMPLE)} sees {format_vram(shown)}: slices don't hold.",
        _REINSTALL,
    )


def _shown_limit(card: CardView, shown: Mib | None) -> Finding:
    if shown is None:
        return wrong("limit", f"NVML doesn't show {card.uuid}.", "Stop the server and start it again.")
    if shown <= card.limit:
        return good("limit", f"NVML shows {format_vram(shown)} of {card.uuid}")
    return wrong(
        "limit",
        f"NVML shows {format_vram(shown)} of {card.uuid}, the slice has {format_vram(card.limit)}.",
        "Stop the server and start it again.",
    )


def _healthy(machine: Machine) -> list[Card]:
    try:
        return [card for card in machine.cards() if card.healthy]
    except NoCardsError:
        return []


def _describe(view: SliceView, card: CardView) -> str:
    amount = "the whole card" if card.whole else format_vram(card.limit)
    cores = f" · {card.cores} %" if card.cores else ""
    return f"{view.name}: {amount}{cores} of {card.uuid}, {format_vram(card.used)} in use"


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0] if text.strip() else "no reason given"


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else "no reason given"
