"""The built library: what it shows, what it needs, and that every entry point of the headers has been judged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TOOLS = ROOT / "native" / "tools"
JUDGEMENTS = ROOT / "native" / "libvgpu" / "judgements.txt"
OLDEST_GLIBC = (2, 17)

sys.path.insert(0, str(TOOLS))
import generate_libvgpu as generator  # noqa: E402
from entry_points import EntryPoint  # noqa: E402


def output_of(*command: Path | str) -> str:
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


def test_needs_no_symbol_newer_than_glibc_2_17(native):
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", output_of("objdump", "-T", native.limiter))
    assert versions
    assert max((int(a), int(b)) for a, b in versions) <= OLDEST_GLIBC


def test_needs_no_driver(native):
    needed = re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", native.limiter))
    assert all(name.startswith(("libc.so", "ld-linux")) for name in needed), needed


def test_shows_the_hooked_names_and_the_lookups_only(native):
    shown = set(output_of("nm", "-D", "--defined-only", "--format=just-symbols", native.limiter).split())
    judged = generator.read_judgements(JUDGEMENTS)
    hooked = {name for names in judged.values() for name, judgement in names.items() if judgement.hooked}
    assert shown == hooked | set(generator.LOOKUPS)


def test_wrappers_stand_in_the_file_that_their_judgement_names():
    sources = JUDGEMENTS.parent / "src"
    for names in generator.read_judgements(JUDGEMENTS).values():
        for name, judgement in names.items():
            if judgement.hooked and not judgement.gated:
                assert re.search(rf"\b{name}\(|\b{name},", (sources / judgement.where).read_text()), name


@pytest.mark.parametrize(
    ("declared", "complaint"),
    [
        (["cuInit", "cuMemAllocFromTheMoon"], "cuMemAllocFromTheMoon. Add each"),
        ([], "does not declare cuInit"),
    ],
    ids=["new in the header", "gone from the header"],
)
def test_a_header_that_does_not_fit_the_judgements_stops_the_build(declared, complaint):
    judged = {"cuInit": generator.Judgement("hooked", "init.c")}
    with pytest.raises(generator.JudgementError, match=complaint):
        generator.check("cuda", [EntryPoint(name, "CUresult", ()) for name in declared], judged)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("passes cuda query\n  cuA cuA\n", "judged twice"),
        ("perhaps cuda query\n  cuA\n", "expected 'hooked"),
        ("  cuA\n", "before the first heading"),
    ],
)
def test_a_list_that_can_not_be_read_says_where(tmp_path, text, complaint):
    path = tmp_path / "judgements.txt"
    path.write_text(text)
    with pytest.raises(generator.JudgementError, match=complaint):
        generator.read_judgements(path)
