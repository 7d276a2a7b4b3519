"""What a client and a server do together, over HTTP on uvicorn, at every revision: the tests of `api.test_api` again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api import test_api as suite
from api.transports import http, over, those_that_reach


@pytest.fixture(autouse=True)
def _over_http() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with over(http()):
        yield


globals().update(those_that_reach(suite))
