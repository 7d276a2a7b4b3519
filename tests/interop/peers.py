"""The releases of others' SDKs and frameworks that serve as peers, and how their processes are reached."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from helpers.named import GONE, NAMED, ORDER
from helpers.requirements import A, B, C, D

HERE: Final = Path(__file__).parent
INTEROP: Final = HERE.parents[1] / ".interop"
"""Where `make interop` puts the environments."""
LIMIT: Final = 20.0
"""Seconds that one case gets."""


MCP: Final = "mcp"
"""The official Python SDK."""
FASTMCP: Final = "fastmcp"
INSPECTOR: Final = "inspector"
TYPESCRIPT: Final = "typescript"
"""The official TypeScript SDK."""
NODE: Final = next(
    (INTEROP / "node-22.23.3" / "node_modules").glob("node-linux-*/bin/node"), INTEROP / "node"
)
"""What runs the peers that are written in JavaScript."""
JAVASCRIPT: Final = (TYPESCRIPT, INSPECTOR, "everything", "memory", "filesystem")
"""These peers."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A release, the revision that is spoken with it, and over what."""

    name: str
    release: str
    revision: str
    transport: str
    mode: str = "auto"
    """How the client begins, for a release that knows several ways."""

    @property
    def folder(self) -> Path:
        """The environment that has the release."""
        return INTEROP / (self.release if self.name == MCP else f"{self.name}-{self.release}")

    @property
    def modes(self) -> tuple[str, ...]:
        """How the client is to begin, for a script of a release that can be told."""
        told = self.name == FASTMCP or (self.name in (MCP, TYPESCRIPT) and self.release.startswith("2."))
        return (self.mode,) if told else ()

    @property
    def probe(self) -> float:
        """Seconds that it gets to answer what it may not know: the oldest release leaves that unanswered."""
        return 1.0 if (self.name, self.release) == (MCP, "1.8.1") else 10.0

    @property
    def id(self) -> str:
        return f"{self.revision}-{self.name}{self.release}-{self.transport}"

    def since(self, revision: str) -> bool:
        """Whether the revision spoken is that one or a newer one."""
        return ORDER.index(self.revision) >= ORDER.index(revision)

    def script(self, role: str) -> tuple[str, ...]:
        """The command that runs it as a server, as a decorated server or as a client."""
        if self.name == TYPESCRIPT:
            script = str(HERE / f"typescript_{role}.mjs")
            return str(NODE), "--experimental-eventsource", script, str(self.folder)
        script = f"sdk{self.release[0]}" if self.name == MCP else self.name.replace("-", "_")
        return str(self.folder / "bin" / "python"), str(HERE / f"{script}_{role}.py")

    def program(self, path: str, *options: str) -> tuple[str, ...]:
        """The command that runs a JavaScript file of the release's own, below its packages."""
        return str(NODE), str(self.folder / "node_modules" / "@modelcontextprotocol" / path), *options

    def missing(self) -> pytest.MarkDecorator:
        """Skips a test where the release is not installed."""
        missing = not (self.folder / ".ready").exists() or (self.name in JAVASCRIPT and not NODE.exists())
        return pytest.mark.skipif(missing, reason=f"{self.name} {self.release} is missing: `make interop`")


def peers(name: str, releases: Sequence[tuple[str, str]], *transports: str, mode: str = "auto") -> list[Peer]:
    """Each release over each transport, but for revisions that are spoken no longer."""
    return [
        Peer(name, release, revision, transport, mode)
        for transport in transports
        for release, revision in releases
        if revision not in GONE
    ]


_PYTHON: Final = (("1.8.1", A), ("1.9.4", B), ("1.10.1", C), ("1.23.3", D), ("2.3.0", NAMED[4]))
_TYPESCRIPT: Final = (("1.0.4", A), ("1.12.3", B), ("1.17.5", C), ("1.32.2", D), ("2.4.0", NAMED[4]))
"""Each with the newest revision that it speaks."""
PEERS: Final = (
    *peers(MCP, _PYTHON, "stdio", "http"),
    *peers(MCP, [("2.3.0", D)], "stdio", "http", mode="legacy"),
    *peers(MCP, _PYTHON[:1], "sse"),
    *peers(TYPESCRIPT, _TYPESCRIPT, "stdio"),
    *peers(TYPESCRIPT, _TYPESCRIPT[1:], "http"),
    *peers(TYPESCRIPT, [("2.4.0", D)], "stdio", "http", mode="legacy"),
    *peers(TYPESCRIPT, _TYPESCRIPT[:1], "sse"),
)
"""The peers that are both servers and clients, and try everything."""
_FASTMCP: Final = (("2.14.7", D), ("3.4.10", D), ("4.1.2", NAMED[4]))
DECORATING: Final = (
    *peers(FASTMCP, _FASTMCP, "stdio", "http"),
    *peers(FASTMCP, [("4.1.2", D)], "stdio", "http", mode="legacy"),
)
"""Those whose servers are in the decorated style only."""
DECORATED: Final = (*(peer for peer in PEERS if peer.name == MCP), *DECORATING)
"""The servers in the decorated style."""
CLIENTS: Final = (*PEERS, *DECORATING)
"""The clients that try everything."""
FRAMEWORKS: Final = (
    *peers("langchain", [("0.3.2", D)], "stdio", "http"),
    *peers("pydantic-ai", [("2.68.0", NAMED[4])], "stdio", "http"),
)
"""Hosts' frameworks, which turn tools of servers into tools of agents."""
INSPECTORS: Final = (
    *peers(INSPECTOR, [("0.14.3", B), ("1.0.3", D), ("2.12.0", NAMED[4])], "stdio", "http", mode="modern"),
    *peers(INSPECTOR, [("2.12.0", D)], "stdio", "http", mode="legacy"),
)
"""The command lines of the Inspector."""
REFERENCE: Final = (
    *peers("everything", [("2025.3.19", A), ("2026.8.31", D)], "stdio"),
    *peers("memory", [("2026.8.31", D)], "stdio"),
    *peers("filesystem", [("2026.8.31", D)], "stdio"),
)
"""The reference servers."""
ALL: Final = (*CLIENTS, *FRAMEWORKS, *INSPECTORS, *REFERENCE)
"""Every peer."""


TRANSPORTS: Final = ("stdio", "http", "sse")


def chosen(
    since: str,
    until: str,
    transports: tuple[str, ...] = TRANSPORTS,
    among: Sequence[Peer] = PEERS,
) -> list[Any]:
    """The peers that speak a range of revisions, as parameters of tests."""
    last = ORDER.index(until)
    return [
        pytest.param(peer, id=peer.id, marks=peer.missing())
        for peer in among
        if peer.since(since) and ORDER.index(peer.revision) <= last and peer.transport in transports
    ]


OURS: Final = (sys.executable, str(HERE / "our_server.py"))
"""The command that runs our server."""
