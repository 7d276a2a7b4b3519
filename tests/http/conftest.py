"""Each test over HTTP begins without knowledge of servers: one may get the port that another test's server had."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from mcprev.transports.http.client.target import VERDICTS
from named import A, D


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    known = dict(VERDICTS._known)  # pyright: ignore[reportPrivateUsage]
    VERDICTS._known.clear()  # pyright: ignore[reportPrivateUsage]
    yield
    VERDICTS._known.clear()  # pyright: ignore[reportPrivateUsage]
    VERDICTS._known.update(known)  # pyright: ignore[reportPrivateUsage]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the tests that run again on workers, leave those at one revision, unless all are asked for."""
    left_out = [
        item
        for item in items
        if item.path.stem == "test_workers_again"
        and os.environ.get("MCPREV_WORKERS") != "all"
        and (row := getattr(item, "callspec", None)) is not None
        and getattr(row.params.get("row"), "name", D) not in (A, D)
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
