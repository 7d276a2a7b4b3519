"""The releases of the official Python SDK that serve as peers, and how their processes are reached."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from named import GONE, NAMED, ORDER
from requirements import A, B, C, D

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
LIMIT: Final = 20.0
"""Seconds that one case gets."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A release, the revision that is spoken with it, and over what."""

    release: str
    revision: str
    transport: str
    mode: str = "auto"
    """How the client begins, for a release that knows several ways."""

    @property
    def python(self) -> Path:
        """The interpreter that has the release."""
        return ROOT / ".interop" / self.release / "bin" / "python"

    @property
    def generation(self) -> str:
        """Which of the scripts speaks the release's API."""
        return "sdk" + self.release[0]

    @property
    def probe(self) -> float:
        """Seconds that it gets to answer what it may not know: the oldest release leaves that unanswered."""
        return 1.0 if self.release == "1.8.1" else 10.0

    @property
    def id(self) -> str:
        return f"{self.revision}-mcp{self.release}-{self.transport}"

    def since(self, revision: str) -> bool:
        """Whether the revision spoken is that one or a newer one."""
        return ORDER.index(self.revision) >= ORDER.index(revision)

    def script(self, role: str) -> tuple[str, str]:
        """The command that runs it as a server, as a decorated server or as a client."""
        return str(self.python), str(HERE / f"{self.generation}_{role}.py")

    def conditions(self, ours: str, defects: Mapping[str, str]) -> list[pytest.MarkDecorator]:
        """What has to be there for a test with it to run, where ours is the client or the server.

        `defects` says of releases why they cannot take part.
        """
        release = self.release
        reason = f"mcp {release}: {defects.get(release)}"
        return [
            pytest.mark.skipif(not self.python.exists(), reason=f"mcp {release} is missing: `make interop`"),
            pytest.mark.skipif(release in defects, reason=reason),
            # What shares a process is run by one worker.
            pytest.mark.xdist_group(f"{ours}-{self.id}"),
        ]


_RELEASES: Final = (("1.8.1", A), ("1.9.4", B), ("1.10.1", C), ("1.23.3", D), ("2.3.0", NAMED[4]))
"""Each with the newest revision that it speaks."""
PEERS: Final = (
    *(Peer(release, revision, "stdio") for release, revision in _RELEASES if revision not in GONE),
    Peer("2.3.0", D, "stdio", mode="legacy"),
    *(Peer(release, revision, "http") for release, revision in _RELEASES if revision not in GONE),
    Peer("2.3.0", D, "http", mode="legacy"),
    *(Peer(release, revision, "sse") for release, revision in _RELEASES[:1] if revision not in GONE),
)


TRANSPORTS: Final = ("stdio", "http", "sse")


def chosen(
    ours: str,
    since: str,
    until: str,
    defects: Mapping[str, str] | None,
    transports: tuple[str, ...] = TRANSPORTS,
) -> list[Any]:
    """The peers that speak a range of revisions, as parameters, where ours is the client or the server."""
    last = ORDER.index(until)
    return [
        pytest.param(peer, id=peer.id, marks=peer.conditions(ours, defects or {}))
        for peer in PEERS
        if peer.since(since) and ORDER.index(peer.revision) <= last and peer.transport in transports
    ]


OURS: Final = (sys.executable, str(HERE / "our_server.py"))
"""The command that runs our server."""
