"""The table of peers in docs/peers.md, written from a run of all the tests with them."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final, cast

import pytest

WHERE: Final = "MCPREV_PEERS_TABLE"
"""The variable that says which file to write."""
HEAD: Final = """# Peers

The clients, servers and frameworks of others that mcprev is tested with. A peer that is both a client and a server is
tested in both roles. `make interop` installs each release into its own environment, runs the cases and writes this table.
A case is one feature over one transport at one revision. A known difference is a defect of the peer that
`tests/interop/defects.py` lists with its cause; its case runs too, and must fail.

| peer | release | revisions | passed | known differences |
|---|---|---|---:|---:|
"""
SESSIONS: Final = """
## Sessions that a server has forgotten

A server that does not know the session of a request, because it was started anew, answers with status 404, says the specification. Some
answer otherwise. The client, and so a bridge, opens another session after each of these, and sends the request again, which was not executed:

| status | text, or message of the error | of |
|---|---|---|
| 400 | `Bad Request: No valid session ID provided` | mcp up to 1.23.3, as text; everything 2026.8.31, and other servers on the TypeScript SDK that keep a transport for each session, as an error |
| 400 | `Bad Request: Server not initialized` | servers on typescript 1.12.3 to 2.4.0 that have one transport for all clients |

After any other status or text, the request fails with the error as it came.
"""


class Tally:
    """What came of the cases of each peer."""

    def __init__(self) -> None:
        self._revisions: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._passed: Counter[tuple[str, str]] = Counter()
        self._causes: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._whole = True

    @classmethod
    def wanted(cls) -> bool:
        """Whether the table is to be written."""
        return WHERE in os.environ

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one case."""
        told = dict(report.user_properties)
        if "peer" not in told:
            return
        name, release, revision = cast("tuple[str, str, str]", told["peer"])
        peer = (name, release)
        expected = hasattr(report, "wasxfail")
        if report.failed or (report.skipped and not expected):
            self._whole = False
        elif report.when == "call":
            self._revisions[peer].add(revision)
            if expected:
                self._causes[peer][str(told["defect"])] += 1
            else:
                self._passed[peer] += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the table, if all the cases of all the peers ran and came out as expected."""
        if self._whole and self._passed:
            Path(os.environ[WHERE]).write_text(self.text(), encoding="utf-8")

    def text(self) -> str:
        """The whole page."""
        peers = sorted(self._passed, key=_order)
        rows = [
            f"| {name} | {release} | {', '.join(sorted(self._revisions[name, release]))} "
            f"| {self._passed[name, release]} | {self._causes[name, release].total()} |"
            for name, release in peers
        ]
        causes = [
            f"- {name} {release}: {cause} ({count} {'case' if count == 1 else 'cases'})"
            for name, release in peers
            for cause, count in sorted(self._causes[name, release].items())
        ]
        return "\n".join([HEAD + "\n".join(rows), SESSIONS, "## Known differences", "", *causes]) + "\n"


def _order(peer: tuple[str, str]) -> tuple[str, list[int]]:
    """Peers by name, and by the numbers of their releases."""
    return peer[0], [int(part) for part in peer[1].split(".")]
