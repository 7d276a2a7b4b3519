"""Runs the official conformance suite against the fixtures and judges by what it wrote, not by what it prints.

    PYTHONPATH=tests python -m conformance.run [--leg server|client] [--workers N] [--only SCENARIO] [--keep DIR]

A scenario counts as passed when at least one check of its own succeeded, none failed or warned, and a client ended
as it should. The suite takes silence, dead peers and misspelt names for success; here whatever is missing fails.
With `--workers`, the server is several processes that share a Redis, behind a front that gives no two requests in a row
to the same one: the same scenarios must pass.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from helpers.redis_server import RedisServer
from helpers.served_workers import free_port
from helpers.spreading_front import SpreadingFront

HERE: Final = Path(__file__).parent
SUITE: Final = HERE / "node_modules" / ".bin" / "conformance"
NODES: Final = (HERE / "node_modules").glob("node-linux-*/bin")
AT_ONCE: Final = 3
"""Processes of the suite at a time; it mostly waits."""
BOUND: Final = 60.0
"""Seconds that one run of the suite may take, and each client of a run of many."""
ENDED: Final = "ended well"
"""What the client says at its end: of its exit code nothing is heard where many run at once."""
SCHEMA_ONLY: Final = "wire-schema-valid"
"""A check that succeeds where nothing was said."""
MAY_FAIL: Final = frozenset(
    {
        "http-invalid-tool-headers",
        "auth/iss-normalized",
        "auth/iss-supported-missing",
        "auth/iss-unexpected",
        "auth/iss-wrong-issuer",
        "auth/metadata-issuer-mismatch",
        "auth/resource-mismatch",
        "auth/scope-retry-limit",
    }
)
"""Client scenarios in which the client may end with an error."""
SERVER: Final = {"2025-11-25": 33, "2026-07-28": 40}
"""The revisions whose server scenarios run as the suite means them, and how many there are."""
FROZEN: Final = ("2025-11-25", "2026-07-28")
"""The revisions of which there is a frozen set of required scenarios."""
PINNED: Final = {"2025-06-18": "2025-06-18", "2025-03-26": "2025-03-26", "2024-11-05": "2025-03-26"}
"""The wires that the suite never asks for by itself, and the revision that it is to judge them by."""
OLD: Final = ("2025-03-26", "2025-06-18")
"""The revisions whose scenarios those wires get."""
PINNED_COUNT: Final = 27
TASKS: Final = 10
SKILLS: Final = 3
"""Server scenarios for skills."""
CLIENT: Final = {"2025-03-26": 2, "2025-06-18": 5, "2025-11-25": 19, "2026-07-28": 33}
"""Client scenarios that a revision has."""
EXTENSIONS: Final = {"auth/": 6, "sep-2640-client-": 4}
"""Client scenarios of extensions, by how their names begin; they run at a revision of the suite's choice."""
EXTENSION_WIRE: Final = "2025-11-25"
"""That revision."""
FORCED: Final = {"2025-03-26": ("tools_call",)}
"""Client scenarios that also make sense at a revision that the suite does not list them for."""


@dataclass(frozen=True, slots=True)
class Case:
    """One scenario on one wire."""

    leg: str
    scenario: str
    wire: str
    """The revision that is spoken."""
    judged: str | None = None
    """The revision the suite is told, where it is not its own choice."""
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a case ended."""

    case: Case
    why: str | None
    """What is wrong; None for a pass."""
    checks: int


def judge(case: Case, code: int, checks: Iterable[Mapping[str, str]]) -> Verdict:
    """Whether a case passed, from what the suite wrote."""
    found = list(checks)
    own = [check for check in found if check["id"] != SCHEMA_ONLY]
    bad = [check for check in found if check["status"] in ("FAILURE", "WARNING")]
    good = [check for check in own if check["status"] == "SUCCESS"]
    why = None
    if bad:
        why = "; ".join(f"{check['id']}: {_reason(check)}" for check in bad)
    elif not good:
        why = "nothing was judged"
    elif code and case.leg == "client" and case.scenario not in MAY_FAIL:
        why = f"the client ended with {code}"
    return Verdict(case, why, len(good))


def _reason(check: Mapping[str, str]) -> str:
    return str(check.get("errorMessage") or check.get("details") or check.get("description"))[:400]


def expected() -> dict[str, dict[str, str]]:
    """The scenarios that are known not to pass, by leg, with the reason for each."""
    return tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))


def compare(verdicts: Iterable[Verdict], known: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What differs from what is expected: new failures, passes still listed, and entries for nothing."""
    problems: list[str] = []
    used: set[tuple[str, str]] = set()
    for verdict in verdicts:
        case = verdict.case
        names = (f"{case.scenario}@{case.wire}", case.scenario)
        entry = next((name for name in names if name in known.get(case.leg, {})), None)
        if entry is not None:
            used.add((case.leg, entry))
        if verdict.why is None and entry is not None:
            problems.append(f"{case.leg} {names[0]} passes, but '{entry}' is listed in expected.toml")
        elif verdict.why is not None and entry is None:
            problems.append(f"{case.leg} {names[0]}: {verdict.why}")
    listed = {(leg, name) for leg, names in known.items() for name in names}
    problems += [
        f"expected.toml lists {leg} '{name}', which was not run" for leg, name in sorted(listed - used)
    ]
    return problems


# -- running -----------------------------------------------------------------------------------------------


class Suite:
    """Runs the suite's command, a few at a time."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._turn = asyncio.Semaphore(AT_ONCE)
        node = next(iter(NODES), None)
        if node is None or not SUITE.exists():
            raise SystemExit("the suite is not installed: run `make conformance`")
        self._env = {**os.environ, "PATH": f"{node}:{os.environ['PATH']}", "NO_COLOR": "1"}

    async def run(self, *arguments: str, bound: float = BOUND) -> tuple[int, str]:
        """Run a command of the suite. Gives its exit code and what it printed."""
        process = await asyncio.create_subprocess_exec(
            str(SUITE),
            *arguments,
            env=self._env,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(bound):
                out, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            out, _ = await process.communicate()
        return process.returncode or 0, out.decode(errors="replace")

    async def scenarios(self, *arguments: str) -> list[str]:
        """The scenarios of a selection."""
        _, out = await self.run("list", *arguments)
        return re.findall(r"^  - (\S+)", out, re.MULTILINE)

    async def case(self, case: Case, *arguments: str, bound: float = BOUND) -> Verdict:
        """Run one case and judge it. A client has half of the time: the suite's own 30 s are few on a machine with other work."""
        async with self._turn:
            place = Path(tempfile.mkdtemp(prefix=f"{case.scenario.replace('/', '-')}-", dir=self._results))
            version = () if case.judged is None else ("--spec-version", case.judged)
            force = ("--force",) if case.forced else ()
            time = ("--timeout", f"{bound * 500:.0f}") if case.leg == "client" else ()
            chosen = ("--scenario", case.scenario, *version, *force, *time, "-o", str(place))
            code, out = await self.run(case.leg, *arguments, *chosen, bound=bound)
        return judge(case, code, _written(place, out))

    async def together(self, cases: list[Case], url: str, bound: float = BOUND) -> list[Verdict]:
        """Run all server scenarios of a revision in one go, and judge each by itself."""
        if not cases:
            return []
        wire = cases[0].wire
        place = Path(tempfile.mkdtemp(prefix=f"{wire}-", dir=self._results))
        _, out = await self.run(
            "server", "--url", url, "--suite", "all", "--spec-version", wire, "-o", str(place), bound=bound
        )
        checks = {case.scenario: _written(place, out, f"server-{case.scenario}-2*") for case in cases}
        return [judge(case, 0, checks[case.scenario]) for case in cases]

    async def clients(self, cases: list[Case], *arguments: str) -> list[Verdict]:
        """Run all client scenarios of a revision at once, and judge each by itself."""
        wire = cases[0].wire
        place = Path(tempfile.mkdtemp(prefix=f"client-{wire}-", dir=self._results))
        bounds = ("--timeout", f"{BOUND * 1000:.0f}")
        chosen = ("--suite", "all", "--spec-version", wire, *bounds, "-o", str(place))
        _, out = await self.run("client", *arguments, *chosen, bound=2 * BOUND)
        verdicts: list[Verdict] = []
        for case in cases:
            folder = f"{case.scenario}-2*"
            verdicts.append(judge(case, _code(place, folder), _written(place, out, folder)))
        return verdicts


async def listens(port: int) -> bool:
    """Whether somebody listens on a port of this machine."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def _written(place: Path, out: str, folder: str = "**") -> list[Mapping[str, str]]:
    """The checks that the suite wrote; what it printed is kept beside them."""
    (place / "output.txt").write_text(out, encoding="utf-8")
    paths = place.glob(f"{folder}/checks.json")
    return [check for path in paths for check in json.loads(path.read_text(encoding="utf-8"))]


def _code(place: Path, folder: str) -> int:
    """The exit code of a client, by what it said."""
    said = [path.read_text(encoding="utf-8") for path in place.glob(f"{folder}/stdout.txt")]
    return 0 if any(ENDED in text for text in said) else 1


class Fixture:
    """The fixture server, on a free port, for as long as it is needed: one process, or several behind a front."""

    def __init__(self, newest: str | None = None, workers: int = 1, *, skills: bool = False) -> None:
        self._options: tuple[str, ...] = () if newest is None else ("--newest", newest)
        self._options += ("--skills",) if skills else ()
        self._workers = workers
        self._stack = AsyncExitStack()
        self.url = ""

    async def __aenter__(self) -> Self:
        async with self._stack:
            if self._workers == 1:
                port = await self._start()
            else:
                redis = RedisServer().start()
                self._stack.callback(redis.end)
                self._options += ("--store", redis.url())
                front = SpreadingFront(await asyncio.gather(*(self._start() for _ in range(self._workers))))
                port = (await self._stack.enter_async_context(front.listening())).port
                self._stack.callback(_spread, front, self._workers)
            self._stack = self._stack.pop_all()
        self.url = f"http://localhost:{port}/mcp"
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> int:
        """Start a process, and wait until it listens; its port."""
        port = free_port()
        command = (sys.executable, str(HERE / "server.py"), "--port", str(port), *self._options)
        process = await asyncio.create_subprocess_exec(*command)
        self._stack.push_async_callback(_end, process)
        async with asyncio.timeout(BOUND):
            while not await listens(port):
                if process.returncode is not None:
                    raise SystemExit("the fixture server could not be started")
                await asyncio.sleep(0.05)
        return port


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    await process.wait()


def _spread(front: SpreadingFront, workers: int) -> None:
    """Say how many requests each process has had; each must have had some."""
    counts = sorted(Counter(front.given).values())
    print(f"requests of {workers} workers: {counts}")  # noqa: T201
    assert len(counts) == workers


async def server_leg(suite: Suite, only: str | None, workers: int = 1) -> list[Verdict]:
    """Everything that is asked of a server."""
    async with Fixture(workers=workers) as free:
        verdicts: list[Verdict] = []
        for wire, count in SERVER.items():
            names = await suite.scenarios("--server", "--spec-version", wire)
            assert len(names) == count, f"the suite has {len(names)} server scenarios at {wire}, not {count}"
            wanted = [name for name in names if only in (None, name)]
            verdicts += await suite.together([Case("server", name, wire, wire) for name in wanted], free.url)
        tasks = [name for name in await suite.scenarios("--server") if name.startswith("tasks-")]
        assert len(tasks) == TASKS, f"the suite has {len(tasks)} scenarios for tasks, not {TASKS}"
        cases = [Case("server", name, "2026-07-28") for name in tasks]
        verdicts += await _run(suite, cases, only, "--url", free.url)
        if only is None:
            verdicts += [await _frozen(suite, free.url, revision) for revision in FROZEN]
    skills = [name for name in await suite.scenarios("--server") if name.startswith("sep-2640-")]
    assert len(skills) == SKILLS, f"the suite has {len(skills)} scenarios for skills, not {SKILLS}"
    for wire in FROZEN:
        async with Fixture(wire, skills=True) as served:
            cases = [Case("server", name, wire, wire, forced=True) for name in skills]
            verdicts += await _run(suite, cases, only, "--url", served.url)
    names = [name for wire in OLD for name in await suite.scenarios("--server", "--spec-version", wire)]
    pinned = sorted(set(names))
    assert len(pinned) == PINNED_COUNT, f"the suite has {len(pinned)} scenarios for older wires"
    for wire, judged in PINNED.items():
        async with Fixture(wire, workers) as old:
            cases = [Case("server", name, wire, judged, forced=True) for name in pinned]
            verdicts += await _run(suite, cases, only, "--url", old.url)
    return verdicts


async def _frozen(suite: Suite, url: str, revision: str) -> Verdict:
    """A frozen set of requirements, as a whole and by the suite's own judgement."""
    code, out = await suite.run("server", "--url", url, "--requirements", revision)
    why = None if code == 0 else f"exit code {code}: {out[-300:]}"
    return Verdict(Case("server", "(frozen set)", revision), why, 1)


async def client_leg(suite: Suite, only: str | None) -> list[Verdict]:
    """Everything that is asked of a client."""
    command = ("--command", f"{sys.executable} {HERE / 'client.py'}")
    verdicts: list[Verdict] = []
    listed: set[str] = set()
    cases: list[Case] = []
    for wire, count in CLIENT.items():
        names = await suite.scenarios("--client", "--spec-version", wire)
        assert len(names) == count, f"the suite has {len(names)} client scenarios at {wire}, not {count}"
        listed.update(names)
        mine = [Case("client", name, wire, wire) for name in names]
        if only is None:
            verdicts += await suite.clients(mine, *command)
        else:
            cases += mine
        cases += [Case("client", name, wire, wire, forced=True) for name in FORCED.get(wire, ())]
    more = [name for name in await suite.scenarios("--client") if name not in listed]
    for start, count in EXTENSIONS.items():
        names = [name for name in more if name.startswith(start)]
        assert len(names) == count, f"the suite has {len(names)} client scenarios of {start}, not {count}"
        cases += [Case("client", name, EXTENSION_WIRE) for name in names]
    return verdicts + await _run(suite, cases, only, *command)


async def _run(suite: Suite, cases: Iterable[Case], only: str | None, *arguments: str) -> list[Verdict]:
    """Run cases, a few at a time, and say how far it is where somebody looks."""
    found: list[Verdict] = []
    wanted = [case for case in cases if only is None or case.scenario == only]
    for done in asyncio.as_completed([suite.case(case, *arguments) for case in wanted]):
        found.append(await done)
        if sys.stderr.isatty():
            line = f"\r{len(found)}/{len(wanted)} {found[-1].case.scenario:50.50}"
            print(line, end="", file=sys.stderr)  # noqa: T201
    return found


# -- the table ---------------------------------------------------------------------------------------------


def table(verdicts: Iterable[Verdict], known: Mapping[str, Mapping[str, str]]) -> str:
    """Revision by scenario, for each leg."""
    lines: list[str] = []
    for leg in ("server", "client"):
        mine = [verdict for verdict in verdicts if verdict.case.leg == leg]
        if not mine:
            continue
        wires = sorted({verdict.case.wire for verdict in mine})
        lines.append(f"{leg:50} {'  '.join(wires)}")
        for scenario in sorted({verdict.case.scenario for verdict in mine}):
            cells = [_cell(mine, scenario, wire, known.get(leg, {})) for wire in wires]
            lines.append(f"  {scenario:48} {'  '.join(f'{cell:>10}' for cell in cells)}".rstrip())
        passed = [sum(v.why is None for v in mine if v.case.wire == wire) for wire in wires]
        of = [sum(v.case.wire == wire for v in mine) for wire in wires]
        counts = [f"{good}/{all_}" for good, all_ in zip(passed, of, strict=True)]
        lines.append(f"  {'passed':48} {'  '.join(f'{count:>10}' for count in counts)}\n")
    return "\n".join(lines)


def _cell(verdicts: Iterable[Verdict], scenario: str, wire: str, known: Mapping[str, str]) -> str:
    for verdict in verdicts:
        if verdict.case.scenario == scenario and verdict.case.wire == wire:
            listed = scenario in known or f"{scenario}@{wire}" in known
            return "ok" if verdict.why is None else "expected" if listed else "FAILED"
    return ""


async def run(leg: str | None, only: str | None, workers: int, results: Path) -> int:
    """Run what was asked for, print the table, and say what is not as expected."""
    began = time.monotonic()
    suite, verdicts = Suite(results), list[Verdict]()
    if leg != "client":
        verdicts += await server_leg(suite, only, workers)
    if leg != "server":
        verdicts += await client_leg(suite, only)
    known = expected()
    problems = compare(verdicts, known)
    if leg is not None or only is not None:
        problems = [problem for problem in problems if "was not run" not in problem]
    print(f"\n{table(verdicts, known)}")  # noqa: T201
    for problem in problems:
        print(f"FAILED {problem}")  # noqa: T201
    print(f"{len(verdicts)} runs in {time.monotonic() - began:.0f} s, {len(problems)} problems")  # noqa: T201
    return 1 if problems or not verdicts else 0


def with_results(keep: Path | None, work: Callable[[Path], Coroutine[Any, Any, int]]) -> int:
    """Do some work with a folder for what the suite writes, which is kept only if it is named."""
    results = keep or Path(tempfile.mkdtemp(prefix="mcprev-conformance-"))
    results.mkdir(parents=True, exist_ok=True)
    try:
        return asyncio.run(work(results))
    finally:
        if keep is None:
            shutil.rmtree(results, ignore_errors=True)


def main() -> None:
    """Run the suite; exit code 1 when anything is not as expected."""
    parser = argparse.ArgumentParser(description="Run the official conformance suite.")
    parser.add_argument("--leg", choices=("server", "client"))
    parser.add_argument("--only", metavar="SCENARIO")
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes of the server, which share a Redis"
    )
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep what the suite wrote here")
    options = parser.parse_args()
    sys.exit(with_results(options.keep, partial(run, options.leg, options.only, options.workers)))


if __name__ == "__main__":
    main()
