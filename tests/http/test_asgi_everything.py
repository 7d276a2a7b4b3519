"""The tests of `api.test_api` again, at every revision over HTTP, with the ASGI app run in process and not by uvicorn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api import test_api as suite
from api.transports import asgi, over, those_that_reach


@pytest.fixture(autouse=True)
def _over_asgi() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    with over(asgi()):
        yield


globals().update(those_that_reach(suite))
