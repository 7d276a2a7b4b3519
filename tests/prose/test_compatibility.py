"""What users' code relies on: a change of the public surface that can break it has an entry among the changes.

docs/compatibility.md says what is promised. `public_surface.txt` is the surface of the last release.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.support import ROOT
from public_surface import breaks, read, surface

CHANGES = ROOT / "changes"
KINDS = ("breaking", "security", "added", "changed", "fixed")


def test_what_may_break_users_is_said_in_a_change() -> None:
    """Write a file of the kind "breaking" into changes/ that names it in backticks and says what to write instead."""
    said = "".join(
        path.read_text(encoding="utf-8") for path in CHANGES.iterdir() if ".breaking." in path.name
    )
    assert [name for name in breaks(read(), surface()) if f"`{name}`" not in said] == []


@pytest.mark.parametrize(
    ("old", "new", "broken"),
    [
        ("(self, name)", "(self, name, more=)", False),
        ("(self, name)", "(self, name, *, more=)", False),
        ("(self, name, *, more=)", "(self, name, more=)", False),
        ("(self, name=)", "(self, name=, *others)", False),
        ("", "(self)", False),
        ("(self, name)", "(self, title)", True),
        ("(self, name, more=)", "(self, more=, name=)", True),
        ("(self, name, *, more=)", "(self, name)", True),
        ("(self, name)", "(self, name, more)", True),
        ("(self, name=)", "(self, name)", True),
        ("(self, name)", "(self, *, name)", True),
        ("(self, *, more=)", "(self, *, more)", True),
    ],
)
def test_calls_that_were_allowed_stay_allowed_or_the_change_is_a_break(
    old: str, new: str, *, broken: bool
) -> None:
    assert breaks({"f": old}, {"f": new}) == (["f"] if broken else [])
    assert breaks({"f": old}, {}) == ["f"]


@pytest.mark.parametrize("path", sorted(CHANGES.glob("*.md")), ids=lambda path: path.stem)
def test_each_change_has_a_kind_and_is_for_users(path: Path) -> None:
    if path.name == "README.md":
        return
    *_, kind, _ = path.name.split(".")
    assert kind in KINDS
    assert path.read_text(encoding="utf-8").strip().endswith("."), "an entry is one or more sentences"
