"""The revisions that tests are about by name, the one place among the tests where any is named.

`A` to `D` are revisions with behaviour of their own, whose tests are left out once the table has them no longer
(`conftest.py`); `E` is the latest, whichever that is. All other tests take their revisions from the table.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Final

from fuzz.fuzzing import sampled_of
from mcprev.revisions import ALL, DEFAULT, Revision

NAMED: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""By the letters A to E of the table of requirements, oldest first; the last is where the stateless era begins."""
NAMES: Final = tuple(row.name for row in DEFAULT)
"""The dated revisions that are spoken, oldest first."""
ORDER: Final = (*NAMED, *(name for name in NAMES if name not in NAMED))
"""All of them, oldest first."""
GONE: Final = frozenset(NAMED).difference(NAMES)
"""Those that the table has no longer."""
A, B, C, D = NAMED[:4]
E: Final = NAMES[-1]
"""The latest revision."""

SINCE_E: Final = tuple(name for name in NAMES if name not in NAMED[:4])
"""The revisions of the stateless era, for which tests at the latest one count."""


def row_of(name: str) -> Revision:
    """The row of a revision; one that is gone has a row that nothing speaks, for tables that name it."""
    found = next((row for row in ALL if row.name == name), None)
    if found is None:
        found = copy.copy(DEFAULT[0])
        object.__setattr__(found, "name", name)
        object.__setattr__(found, "version", name)
    return found


ROW_A, ROW_B, ROW_C, ROW_D, ROW_E = map(row_of, (A, B, C, D, E))
ROW_DRAFT: Final = ALL[-1]
MEANT: Final = next((row for row in DEFAULT if row.version == ROW_DRAFT.version), ROW_DRAFT)
"""What the version of the draft means: the dated revision that bears it as well, if there is one."""
SOME_ROWS: Final = sampled_of(DEFAULT, DEFAULT[-2:])
"""Where a test starts processes for each revision: the latest with sessions, and the latest; in `make fuzz`, all.

What differs between revisions is tested at each of them within one process.
"""


def rows_since(name: str) -> tuple[Revision, ...]:
    """The rows of the dated revisions from one on, which need not be there any more."""
    return tuple(row for row in DEFAULT if ORDER.index(row.name) >= ORDER.index(name))


def rows_until(name: str) -> tuple[Revision, ...]:
    """The rows of the dated revisions up to one, which need not be there any more."""
    return tuple(row for row in DEFAULT if ORDER.index(row.name) <= ORDER.index(name))


def mentions_gone(value: object) -> bool:
    """Whether a parameter of a test is about a revision that the table has no longer."""
    text = repr(value) if GONE else ""
    return any(name in text for name in GONE)


def names_gone(function: Callable[..., object]) -> bool:
    """Whether the code of a test names, as a global of its module, a revision that the table has no longer."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not GONE or code is None:
        return False
    pending, found = [code], set[str]()
    while pending:
        here = pending.pop()
        found.update(here.co_names)
        pending += [const for const in here.co_consts if isinstance(const, CodeType)]
    values = (function.__globals__.get(name) for name in found)
    return any(
        (value.name if isinstance(value, Revision) else value) in GONE
        for value in values
        if isinstance(value, str | Revision)
    )
