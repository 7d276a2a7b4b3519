"""What the benchmarks have in common: the peers, what was measured of them, and the table."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path


@dataclass
class Peer:
    """One program, and what was measured of it."""

    name: str
    command: list[str]
    client: str = ""
    """The program of its client, where that is measured by the same script."""
    figures: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def add(self, figure: str, value: float) -> None:
        """Keep one figure."""
        self.figures.setdefault(figure, []).append(value)

    @property
    def slow(self) -> bool:
        """Whether it takes so long that fewer calls say as much."""
        return self.name.startswith(("mcp ", "fastmcp "))

    def median(self, figure: str) -> float | None:
        """The median of the runs; None for a figure that this program has none of."""
        values = self.figures.get(figure)
        return statistics.median(values) if values else None


def release(python: str, distribution: str) -> str:
    """The name and the version of a library in the environment of a Python, for tables and drawings."""
    code = f"from importlib.metadata import version; print(version({distribution!r}))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return f"{distribution} {found.stdout.strip()}"


@contextmanager
def byte_code() -> Generator[None]:
    """Let programs keep byte code for the next run, as installed packages have it, in a folder of their own.

    A checkout's files have none where `PYTHONDONTWRITEBYTECODE` is set, and a start would compile all of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        yield
        del os.environ["PYTHONPYCACHEPREFIX"]


def progress(run: int, runs: int) -> None:
    """Say on a terminal how far it has come."""
    if sys.stderr.isatty():
        print(
            f"\r\x1b[Krun {run} of {runs}", end="" if run < runs else "\r\x1b[K", file=sys.stderr, flush=True
        )


def save(peers: Sequence[Peer]) -> None:
    """Write what was measured, with machine, date and versions, as JSON into the folder that `MCPREV_FIGURES` names, if any."""
    folder = os.environ.get("MCPREV_FIGURES")
    if not folder:
        return
    script = Path(sys.argv[0]).stem
    Path(folder).mkdir(parents=True, exist_ok=True)
    found = {
        "benchmark": script,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}",
        "versions": {"Python": platform.python_version(), "mcprev": version("mcprev")},
        "load": round(os.getloadavg()[0], 1),
        "peers": {peer.name: peer.figures for peer in peers},
    }
    (Path(folder) / f"{script}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def processor() -> str:
    """The name of the processor."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def show(peers: list[Peer]) -> None:
    """Print every figure: of the floor, of this project, and of peers, with the ratios to this project; `save` them."""
    save(peers)
    floor, ours = peers[0], peers[1]
    for figure in dict.fromkeys(figure for peer in peers for figure in peer.figures):
        print(figure)
        base, mine = floor.median(figure), ours.median(figure)
        for peer in peers:
            median = peer.median(figure)
            if median is None:
                continue
            values = peer.figures[figure]
            line = f"  {peer.name:<32} {median:>10.1f}  ({min(values):.1f} to {max(values):.1f})"
            if base:
                line += f"  {median / base:.2f} of the floor"
            if mine and peer not in (floor, ours):
                line += f"; mcprev is {mine / median:.2f} of it"
            print(line)


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process so far."""
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_megabytes(pid: int) -> float:
    """The most memory that a process has had."""
    with open(f"/proc/{pid}/status") as file:  # noqa: PTH123
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
