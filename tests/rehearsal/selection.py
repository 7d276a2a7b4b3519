"""A plugin of pytest that leaves out tests at revisions that are as they were: `-p rehearsal.selection`.

A test whose parameters name revisions, and none of those that `--affected` names, ran in the checked-in tree as it
would run now. So did a test of a package that is not among `--regenerated`. Tests that name no revision always run.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from mcprev.revisions import Revision

PACKAGES: Final = "tests/generated/"
"""The tests that read every package from its first byte to its last."""
_NAME: Final = re.compile(r"(?<!\d)20\d\d-\d\d-\d\d(?!\d)|(?<![a-z])draft(?![a-z])")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the names of the revisions that are not as they were, separated by commas."""
    parser.addoption("--affected", metavar="REVS", help="revisions that tests are to run at")
    parser.addoption("--regenerated", metavar="REVS", help="revisions that tests of packages are to run at")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests that can differ."""
    affected = frozenset(str(config.getoption("--affected")).split(","))
    regenerated = frozenset(str(config.getoption("--regenerated")).split(","))
    same = {
        item
        for item in items
        if (names := revisions_of(item))
        and names.isdisjoint(regenerated if item.nodeid.startswith(PACKAGES) else affected)
    }
    config.hook.pytest_deselected(items=[item for item in items if item in same])
    items[:] = [item for item in items if item not in same]


def revisions_of(item: pytest.Item) -> frozenset[str]:
    """The revisions that a test's parameters name; none for a test without parameters."""
    call: Any = getattr(item, "callspec", None)
    if call is None:
        return frozenset()
    rows = (value.name for value in call.params.values() if isinstance(value, Revision))
    return frozenset({*_NAME.findall(call.id), *rows})
