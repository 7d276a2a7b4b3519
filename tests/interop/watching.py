"""A client on an official SDK is run once against a server of ours, and what both observed is kept, case by case."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import pytest

from helpers.requirements import A, E, req
from interop.peers import CLIENTS, OURS, TRANSPORTS, Peer, chosen

ALL: Final = 60
"""Seconds that all the cases of a client get."""
PLAIN: Final = ("who", "tools", "echo", "many", "structured", "refused", "resources", "prompts", "completion")
"""The cases that need neither sessions nor streams."""
ENDING: Final = 5.0
"""Seconds that a server gets to end."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What came of one case."""

    saw: Any
    """What the client's calls gave."""
    heard: list[list[Any]]
    """What the client's callbacks were given."""
    noted: list[dict[str, Any]]
    """What the server observed."""

    def note(self, what: str) -> dict[str, Any]:
        """What the server observed of a kind, for the last time."""
        return [entry for entry in self.noted if entry["what"] == what][-1]


class Seen:
    """All that a client and our server observed of each other."""

    def __init__(self, peer: Peer, lines: str) -> None:
        self.peer = peer
        self._cases = {said["case"]: said for said in map(json.loads, lines.splitlines())}

    def of(self, case: str) -> Observed:
        """What came of a case, which must not have failed."""
        said = self._cases[case]
        assert "failed" not in said, said["failed"]
        return Observed(said["saw"], said["heard"], said["noted"])


def watch(peer: Peer) -> Seen:
    """Run the client; where it is to talk HTTP, next to a server that listens."""
    server: AbstractContextManager[tuple[str, ...]] = (
        nullcontext(("stdio", *OURS)) if peer.transport == "stdio" else listening(peer.transport)
    )
    with server as where:
        return _run(peer, where, {})


def watch_plainly(peer: Peer) -> Seen:
    """Run the cases that need neither sessions nor streams of calls, next to a server that has none."""
    more = ("changes",) if peer.since(E) else ()
    with listening(peer.transport, "--plain") as where:
        return _run(peer, where, {"CASES": ",".join((*PLAIN, *more))})


def _run(peer: Peer, where: tuple[str, ...], env: Mapping[str, str]) -> Seen:
    done = subprocess.run(
        [*peer.script("client"), *peer.modes, *where],
        capture_output=True,
        text=True,
        timeout=ALL,
        check=False,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    return Seen(peer, done.stdout)


@contextmanager
def listening(transport: str, *options: str) -> Generator[tuple[str, str], None, None]:
    """A server of ours that listens: the first line that it writes says where."""
    with subprocess.Popen([*OURS, "--http", "0", *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            place = process.stdout.readline().strip()
            assert place, "the server did not say where it listens"
            yield transport, f"{place}/{'sse' if transport == 'sse' else 'mcp'}"
        finally:
            process.terminate()
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                process.kill()


def seen_by(
    *ids: str,
    since: str = A,
    until: str = E,
    fixture: str = "seen",
    transports: tuple[str, ...] = TRANSPORTS,
    among: Sequence[Peer] = CLIENTS,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A check of what was seen with every peer of a range of revisions: marked and parametrised."""

    def mark(test: Callable[..., None]) -> Callable[..., None]:
        peers = chosen(since, until, transports, among)
        test = pytest.mark.parametrize(fixture, peers, indirect=True, scope="session")(test)
        marked: Callable[..., None] = req(*ids)(test)
        return marked

    return mark
