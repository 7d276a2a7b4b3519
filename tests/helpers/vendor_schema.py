"""The vendor's file of docs/vendor.md: what the page's first command prints, with what the page adds to it."""

from __future__ import annotations

import re
from typing import Final

from helpers.support import FOURTH, ROOT, SCHEMA

PAGE: Final = (ROOT / "docs" / "vendor.md").read_text(encoding="utf-8")


def snippets(language: str) -> list[str]:
    """The page's blocks in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def vendor_schema() -> str:
    """The schema of a revision with the declarations of the page, and with its rows at their places."""
    text = (SCHEMA / FOURTH / "schema.ts").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(export [^`]+)` \| `([^`]+)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == 5
    for place, added in rows:
        found = re.search(rf"^{place}( =|\b[^\n{{]*{{)", text, re.MULTILINE)
        assert found is not None, place
        text = (
            text[: found.end()] + (f" {added} |" if "type" in place else f"\n  {added}") + text[found.end() :]
        )
    (declarations,) = snippets("typescript")
    return text + declarations
