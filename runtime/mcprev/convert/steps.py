"""Find the module of a step and check that it decides every member that the generated deltas leave open (CONV-*,
SEAM-7).

The deltas list the members that an adjacent revision lacks and those that are filled in. For members that they call
`retyped` or `missing`, the module of the newer revision needs a rule or an explicit acceptance; there is no default.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from mcprev.convert.rules import Rules
from mcprev.errors import UndecidedStep
from mcprev.revisions import Revision

if TYPE_CHECKING:
    from mcprev_types import TypeDelta

_FOLDER: Final = Path(__file__).parent


def decided_rules(
    younger: Revision, older: Revision, deltas: Mapping[str, TypeDelta], *, down: bool
) -> Rules:
    """Return the rules of one direction between two adjacent revisions. Raises `UndecidedStep` for undecided members."""
    name = f"mcprev.convert.step_{younger.name.replace('-', '_')}"
    between = f"between {older.name} and {younger.name}"
    if find_spec(name) is None:
        left = Rules().open_members(deltas)
        if younger.negotiable or left:
            file = str(_FOLDER / f"{name.rpartition('.')[2]}.py")
            raise UndecidedStep(f"nothing converts {between}", file=file, members=left)
        return Rules()  # a draft that only adds members
    module: Any = import_module(name)
    direction = "DOWN" if down else "UP"
    rules = cast("Rules", getattr(module, direction))
    file = str(module.__file__)
    if rules.undecided:
        raise UndecidedStep(
            f"{direction} {between} has undecided members",
            file=file,
            line=_line_of(file, next(iter(rules.undecided)), direction),
            members=[f"{member}: {about}" for member, about in rules.undecided.items()],
        )
    left = rules.open_members(deltas)
    if left:
        raise UndecidedStep(f"{direction} {between} does not decide all members", file=file, members=left)
    return rules


def _line_of(file: str, member: str, direction: str) -> int:
    """Return the line number of a member's entry in a step module, searched from the table of the direction on."""
    lines = Path(file).read_text(encoding="utf-8").split("\n")
    first = next((n for n, line in enumerate(lines) if line.startswith(direction)), 0)
    return next((n for n, line in enumerate(lines, 1) if n > first and f'"{member}"' in line), first + 1)
