"""Peers that are started once and serve many tests."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from interop.holding import Held
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
