"""A real Redis for the tests of stores, one for each worker of pytest."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from helpers.redis_server import RedisServer

REDIS = "MCPREV_TESTS_REDIS"
"""The environment variable with the path of its socket, which processes of a test read too."""


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """The server, which every test shares; tests that stop one start their own."""
    server = RedisServer().start()
    os.environ[REDIS] = str(server.folder / "socket")
    yield server
    del os.environ[REDIS]
    server.end()


@pytest.fixture(autouse=True)
def redis_of_contract(request: pytest.FixtureRequest) -> None:
    """Start the server for the contract suite on Redis."""
    if "::TestRedis::" in request.node.nodeid:  # pyright: ignore[reportUnknownMemberType]
        request.getfixturevalue("redis_server")
