"""Generate libvgpu's tables of entry points from cuda.h, nvml.h and native/libvgpu/judgements.txt.

Writes into the build folder
  entry_points.h   an index and a function type for every entry point
  entry_points.c   the names in order, and our wrapper beside each that is hooked
  gates.c          the wrappers that are only the core share's gate
  exports.map      the version script: what libvgpu.so shows to the dynamic linker

Stops with one line when a header declares an entry point that nobody has judged, or when a hooked one has gone.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from entry_points import EntryPoint, cuda_entry_points, nvml_entry_points

GATES = ("work", "copies")
LOOKUPS = ("dlsym", "dlvsym", "dlopen", "dlmopen")


@dataclass(frozen=True)
class Judgement:
    """What one line of the list says of one name: hooked in a file, gated in some way, or passed for a reason."""

    verb: str
    where: str

    @property
    def hooked(self) -> bool:
        """Whether there is a wrapper of that name."""
        return self.verb != "passes"

    @property
    def gated(self) -> bool:
        """Whether the wrapper is a generated one."""
        return self.verb == "gated"


class JudgementError(Exception):
    """The list and the headers don't agree; the text says how."""


def read_judgements(path: Path) -> dict[str, dict[str, Judgement]]:
    """The judged names by library ("cuda", "nvml").

    Raises:
        JudgementError: a line that can't be read, or a name judged twice.
    """
    judged: dict[str, dict[str, Judgement]] = {"cuda": {}, "nvml": {}}
    section: tuple[str, Judgement] | None = None
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            section = _section(line, number)
            continue
        if section is None:
            raise JudgementError(f"Line {number}: names before the first heading.")
        library, judgement = section
        for name in line.split():
            if name in judged[library]:
                raise JudgementError(f"Line {number}: {name} is judged twice.")
            judged[library][name] = judgement
    return judged


def _section(line: str, number: int) -> tuple[str, Judgement]:
    words = line.split()
    if len(words) != 3 or words[0] not in ("hooked", "gated", "passes") or words[1] not in ("cuda", "nvml"):
        raise JudgementError(f"Line {number}: expected 'hooked|gated|passes cuda|nvml <file or reason>', got '{line}'.")
    if words[0] == "gated" and words[2] not in GATES:
        raise JudgementError(f"Line {number}: '{words[2]}' is no gate. There are: {', '.join(GATES)}.")
    return words[1], Judgement(words[0], words[2])


def check(library: str, entries: list[EntryPoint], judged: dict[str, Judgement]) -> None:
    """Every declared name is judged, every hooked name is declared.

    Raises:
        JudgementError: naming those that are not.
    """
    declared = {entry.name for entry in entries}
    unjudged = sorted(declared - judged.keys())
    if unjudged:
        raise JudgementError(
            f"{len(unjudged)} entry points of the {library} header are not judged: {', '.join(unjudged)}. "
            "Add each to native/libvgpu/judgements.txt."
        )
    gone = sorted(name for name, judgement in judged.items() if judgement.hooked and name not in declared)
    if gone:
        raise JudgementError(
            f"The {library} header does not declare {', '.join(gone)}. Use the headers that pyproject.toml names."
        )


def header(libraries: dict[str, list[EntryPoint]], judged: dict[str, dict[str, Judgement]]) -> str:
    """entry_points.h: indices, function types, and the prototypes of our wrappers, which alone are visible outside."""
    lines = ["// Generated from cuda.h and nvml.h.", "#ifndef ENTRY_POINTS_H", "#define ENTRY_POINTS_H", ""]
    for library, entries in libraries.items():
        lines.append(f"enum {library}_entry {{")
        lines.extend(f"    ENTRY_{entry.name}," for entry in entries)
        lines.extend([f"    {library.upper()}_ENTRY_COUNT", "};", ""])
        lines.extend(f"typedef {entry.result} (*fn_{entry.name})({entry.signature});" for entry in entries)
        lines.extend(["", "#pragma GCC visibility push(default)"])
        lines.extend(f"extern {e.result} {e.name}({e.signature});" for e in entries if judged[library][e.name].hooked)
        lines.extend(["#pragma GCC visibility pop", ""])
    lines.append("#endif")
    return "\n".join(lines) + "\n"


def source(libraries: dict[str, list[EntryPoint]], judged: dict[str, dict[str, Judgement]]) -> str:
    """entry_points.c: names sorted for a binary search, wrappers of the hooked ones."""
    lines = [
        "// Generated from cuda.h, nvml.h and judgements.txt.",
        '#pragma GCC diagnostic ignored "-Wdeprecated-declarations"',
        '#include "entry_tables.h"',
        "",
    ]
    for library, entries in libraries.items():
        lines.extend([f"void *{library}_real[{library.upper()}_ENTRY_COUNT];"])
        lines.append(f"const struct entry {library}_entries[{library.upper()}_ENTRY_COUNT] = {{")
        for entry in entries:
            wrapper = f"(void *){entry.name}" if judged[library][entry.name].hooked else "0"
            lines.append(f'    {{"{entry.name}", {wrapper}}},')
        lines.extend(["};", ""])
    return "\n".join(lines)


def gates(entries: list[EntryPoint], judged: dict[str, Judgement]) -> str:
    """gates.c: a wrapper for each gated name."""
    lines = [
        "// Generated from cuda.h and judgements.txt.",
        '#pragma GCC diagnostic ignored "-Wdeprecated-declarations"',
        '#include "driver.h"',
        '#include "share.h"',
        "",
    ]
    for entry in entries:
        if judged[entry.name].gated:
            lines.extend(_gate(entry, waited=judged[entry.name].where == "copies"))
    return "\n".join(lines)


def _gate(entry: EntryPoint, *, waited: bool) -> list[str]:
    """The wrapper, with all that a core share needs in a function of its own: without one the call stays as it is."""
    stream = next((p.name for p in entry.parameters if re.match(r"CUstream\b(?!\w)", p.declaration)), "NULL")
    per_thread = "true" if entry.name.endswith(("_ptsz", "_ptds")) else "false"
    held = [
        f"static __attribute__((noinline)) {entry.result} {entry.name}_held({entry.signature})",
        "{",
        "    cuda_enter();",
        f"    struct share_ticket ticket = share_enter((void *){entry.name}, {_size(entry)}, {stream}, {per_thread});",
        f"    CUresult result = REAL({entry.name})({entry.arguments});",
        "    share_leave(&ticket);",
    ]
    if waited:
        held.append(f"    struct share_wait wait = share_wait({stream}, {per_thread}, false);")
        held.append("    return share_waited(&wait, result);")
    else:
        held.append("    return result;")
    return [
        *held,
        "}",
        "",
        f"{entry.result} {entry.name}({entry.signature})",
        "{",
        f"    return share_is_off() ? REAL({entry.name})({entry.arguments}) : {entry.name}_held({entry.arguments});",
        "}",
        "",
    ]


def _size(entry: EntryPoint) -> str:
    """How much is moved, as C: work of one size has one cost."""
    names = {p.name: p.declaration for p in entry.parameters}
    copy = names.get("pCopy", "")
    if "3D" in copy:
        return "pCopy ? share_size(pCopy->WidthInBytes * pCopy->Height * pCopy->Depth) : 0"
    if "2D" in copy:
        return "pCopy ? share_size(pCopy->WidthInBytes * pCopy->Height) : 0"
    if "Width" in names and "Height" in names:
        return "share_size(Width * Height)"
    amount = next((n for n in ("ByteCount", "N", "count", "size") if n in names), None)
    return f"share_size({amount})" if amount else "0"


def exports(
    libraries: dict[str, list[EntryPoint]], judged: dict[str, dict[str, Judgement]], lookups: tuple[str, ...]
) -> str:
    """exports.map: the hooked names and the lookups, nothing else."""
    names = [*lookups]
    for library, entries in libraries.items():
        names.extend(entry.name for entry in entries if judged[library][entry.name].hooked)
    return "{\n  global:\n" + "".join(f"    {name};\n" for name in names) + "  local: *;\n};\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", type=Path, required=True, help="folder of cuda.h and nvml.h")
    parser.add_argument("--judgements", type=Path, required=True)
    parser.add_argument("--compiler", default="cc")
    parser.add_argument(
        "--no-lookups", action="store_true", help="for a sanitizer, which needs dlsym before it is ready"
    )
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    arguments = parser.parse_args()
    libraries = {
        "cuda": cuda_entry_points(arguments.include, compiler=arguments.compiler),
        "nvml": nvml_entry_points(arguments.include, compiler=arguments.compiler),
    }
    try:
        judged = read_judgements(arguments.judgements)
        for library, entries in libraries.items():
            check(library, entries, judged[library])
    except JudgementError as error:
        sys.exit(str(error))
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "entry_points.h").write_text(header(libraries, judged))
    (arguments.output / "entry_points.c").write_text(source(libraries, judged))
    (arguments.output / "gates.c").write_text(gates(libraries["cuda"], judged["cuda"]))
    (arguments.output / "exports.map").write_text(exports(libraries, judged, () if arguments.no_lookups else LOOKUPS))


if __name__ == "__main__":
    main()
