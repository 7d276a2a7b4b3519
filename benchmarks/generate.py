"""How long generation takes, all revisions at once, and how much it writes."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Final

from mcprev_codegen.build.packages import generate
from mcprev_codegen.inputs import schema_folder

RUNS: Final = 3


def main() -> None:
    """Generate into an empty folder a few times and print the figures."""
    seconds: list[float] = []
    lines = 0
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as scratch:
            started = time.perf_counter()
            result = generate(schema_folder(), Path(scratch) / "mcprev_types")
            seconds.append(time.perf_counter() - started)
            lines = sum(text.count("\n") for path, text in result.files.items() if path.suffix == ".py")
    print(
        f"generate, all revisions: median {statistics.median(seconds):.1f} s "
        f"(min {min(seconds):.1f}, max {max(seconds):.1f}); {lines} lines of Python"
    )


if __name__ == "__main__":
    main()
