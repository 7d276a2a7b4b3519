"""Each test over HTTP begins without knowledge of servers: one may get the port that another test's server had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcprev.transports.http.client.target import VERDICTS


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    known = dict(VERDICTS._known)  # pyright: ignore[reportPrivateUsage]
    VERDICTS._known.clear()  # pyright: ignore[reportPrivateUsage]
    yield
    VERDICTS._known.clear()  # pyright: ignore[reportPrivateUsage]
    VERDICTS._known.update(known)  # pyright: ignore[reportPrivateUsage]
