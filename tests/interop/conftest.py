"""Peers that are started once and serve many tests, the defects they are known for, and the table of what came of it."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]

from interop.defects import known
from interop.holding import Held
from interop.peers import ALL, Peer
from interop.tally import Tally
from interop.watching import Seen, watch, watch_plainly


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Generator[Held, None, None]:
    """A client of ours, connected to a server on the official SDK; the parameter says which."""
    yield from _hold(request)


@pytest.fixture(scope="session")
def decorated(request: pytest.FixtureRequest) -> Generator[Held, None, None]:
    """The same, with a server in the SDK's decorated style."""
    yield from _hold(request)


def _hold(request: pytest.FixtureRequest) -> Generator[Held, None, None]:
    found = Held(request.param, str(request.fixturename))
    yield found
    found.close()


@pytest.fixture(scope="session")
def seen(request: pytest.FixtureRequest) -> Seen:
    """What a client on the official SDK observed of a server of ours, and the server of it."""
    return watch(request.param)


@pytest.fixture(scope="session")
def plainly_seen(request: pytest.FixtureRequest) -> Seen:
    """The same of a server that has neither sessions nor streams."""
    return watch_plainly(request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect cases with a known defect to fail, and say of each which peer it is about."""
    for item in items:
        peer = _peer_of(item)
        if peer is None or not isinstance(item, pytest.Function):
            continue
        item.user_properties.append(("peer", (peer.name, peer.release, peer.revision)))
        defect = known(peer, f"{item.path.stem}::{item.originalname}")
        if defect is not None:
            item.user_properties.append(("defect", defect.cause))
            item.add_marker(
                pytest.mark.xfail(strict=True, reason=f"{peer.name} {peer.release}: {defect.cause}")
            )


def pytest_configure(config: pytest.Config) -> None:
    """Count what comes of each peer's cases in the process that hears of them all."""
    if not hasattr(config, "workerinput") and Tally.wanted():
        config.pluginmanager.register(Tally(), "interop-tally")


class PeerScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives all the tests of a module with one peer to one worker, which starts the peer once."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return next((f"{module} {peer.id}" for peer in ALL if peer.id in nodeid), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> PeerScheduling:
    """Tests that share a process are run by one worker."""
    return PeerScheduling(config, log)


def _peer_of(item: pytest.Item) -> Peer | None:
    """The peer that a test is parametrised with."""
    given = (
        item.callspec.params.values()
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else ()
    )
    return next((value for value in given if isinstance(value, Peer)), None)
