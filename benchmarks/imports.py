"""What importing the generated packages costs, in fresh interpreters, beside the floor they stand on.

Each figure is the median wall time of a new process, the variants taken in turn so that a noisy machine
treats them alike; the last column is what the variant costs above a bare interpreter with pydantic. Byte code is
there, as that of an installed package is.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Final

from report import Peer, byte_code, progress, save

from mcprev_types.index import REVISIONS

RUNS: Final = 15
_BASE: Final = "import pydantic; pydantic.BaseModel"


def _seconds(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - started


def main() -> None:
    """Measure and print a table."""
    variants = {
        "bare interpreter": "",
        "pydantic": _BASE,
        "a model of one's own": "import pydantic\nclass A(pydantic.BaseModel): a: int",
        "mcprev_types": f"{_BASE}; import mcprev_types",
    }
    for name, info in REVISIONS.items():
        variants[f"{name} Tool"] = f"{_BASE}; from mcprev_types.{info.package} import Tool"
        variants[f"{name} all models"] = f"{_BASE}; from mcprev_types.{info.package}.models import *"
    times: dict[str, list[float]] = {name: [] for name in variants}
    with byte_code():
        for run in range(RUNS + 1):
            for name, code in variants.items():
                seconds = _seconds(code)
                if run:
                    times[name].append(seconds * 1000)
            progress(run, RUNS)
    save([Peer(name, [], figures={"import, ms": values}) for name, values in times.items()])
    floor = statistics.median(times["pydantic"])
    print(f"{'import':<22} {'median ms':>9} {'min':>7} {'max':>7} {'over pydantic':>14}")
    for name, values in times.items():
        median = statistics.median(values)
        line = f"{name:<22} {median:>9.1f} {min(values):>7.1f} {max(values):>7.1f} {median - floor:>14.1f}"
        print(line)


if __name__ == "__main__":
    main()
