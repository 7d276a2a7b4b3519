"""What an app serves, over pipes and over HTTP: some of the tests of `api.test_app` again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api import test_app as suite
from api.transports import asgi, over, pipes, those_that_reach

FEW = ("arguments", "how_tools_fail", "tools_ask", "test_resources", "completions", "announced", "abandoned")


@pytest.fixture(autouse=True, params=[pipes, asgi()], ids=["pipes", "asgi"])
def _over(request: pytest.FixtureRequest) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with over(request.param):
        yield


globals().update(
    {name: test for name, test in those_that_reach(suite).items() if any(part in name for part in FEW)}
)
