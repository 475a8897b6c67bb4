"""Print the folder that holds both cuda.h and nvml.h.  Run by CMake with the interpreter of the build environment.

The PyPI wheels `nvidia-cuda-runtime` and `nvidia-nvml-dev` both install into nvidia/cu13/include.
"""

import sys
from pathlib import Path

CANDIDATES = [
    *(Path(entry) / "nvidia" / "cu13" / "include" for entry in sys.path if entry),
    Path("/usr/local/cuda/include"),
]

for folder in CANDIDATES:
    if (folder / "cuda.h").is_file() and (folder / "nvml.h").is_file():
        print(folder)
        break
else:
    sys.exit(f"Looked in {', '.join(map(str, CANDIDATES))}.")
