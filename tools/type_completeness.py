"""Checks that type checkers know the type of everything that `mcprev` and `mcprev_types` export, as pyright sees it.

Not counted is what pyright itself cannot know: classes of libraries. What is "partially unknown" only follows from such a cause: any other is named by
itself, or by pyright's strict mode.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("mcprev", "mcprev_types")
NOT_COUNTED: Final = ("No docstring", "Type of base class unknown", "Type of metaclass unknown")
"""What is said of missing documentation, and of a class that derives from one of a library."""


def report(package: str) -> dict[str, Any]:
    """What pyright finds out about a package."""
    path = os.pathsep.join(str(ROOT / folder) for folder in ("runtime", "generated"))
    command = [
        "pyright",
        "--verifytypes",
        package,
        "--ignoreexternal",
        "--outputjson",
        "--pythonpath",
        sys.executable,
    ]
    program = Path(sys.executable).with_name(command[0])
    result = subprocess.run(
        [program, *command[1:]],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    found: dict[str, Any] = json.loads(result.stdout)["typeCompleteness"]
    return found


def incomplete(found: dict[str, Any]) -> Iterator[str]:
    """A line for each exported symbol whose type is not known."""
    for symbol in found["symbols"]:
        for diagnostic in symbol.get("diagnostics", ()):
            text = " ".join(map(str.strip, diagnostic["message"].split("\n")))
            if not (text.startswith(NOT_COUNTED) or "partially unknown" in text):
                yield f"{symbol['name']}: {text}"


def main() -> int:
    """Print what is incomplete; return 1 if anything is."""
    lines = [line for package in PACKAGES for line in incomplete(report(package))]
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
