"""Each test over HTTP begins without knowledge of servers: one may get the port that another test's server had."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import pytest

from helpers.named import SOME_ROWS, A, D
from mcprev.transports.http.client.target import VERDICTS

ALL_WORKERS: Final = os.environ.get("MCPREV_WORKERS") == "all"


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    known = dict(VERDICTS._known)  # pyright: ignore[reportPrivateUsage]
    VERDICTS._known.clear()  # pyright: ignore[reportPrivateUsage]
    yield
    VERDICTS._known.clear()  # pyright: ignore[reportPrivateUsage]
    VERDICTS._known.update(known)  # pyright: ignore[reportPrivateUsage]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the tests that run again, leave those at some revisions, unless all are asked for.

    On workers, those at one; on connections, which know no revision, those at some that run at one of these.
    """
    some = {row.name for row in SOME_ROWS}
    known = {(item.path, _function(item)) for item in items if _revision(item) in some}
    left_out = {
        item
        for item in items
        if (found := _revision(item)) is not None
        and (
            (item.path.stem == "test_workers_again" and not ALL_WORKERS and found not in (A, D))
            or (
                item.path.stem == "test_wired_everything"
                and found not in some
                and (item.path, _function(item)) in known
            )
        )
    }
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


def _revision(item: pytest.Item) -> str | None:
    """The name of the revision that a test runs at; None where its parameters do not say."""
    call: Any = getattr(item, "callspec", None)
    return None if call is None else getattr(call.params.get("row"), "name", None)


def _function(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))
