"""The constructs of TypeScript that are refused, each with what to write instead, from `unsupported.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

PLAIN_DATA: Final = "a schema describes plain data: use interfaces, type aliases, enums and constants"
_TABLES: Final[Mapping[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
UNSUPPORTED: Final[Mapping[str, tuple[str, str]]] = {
    node: (row["what"], row["instead"]) for row in _TABLES["construct"] for node in row["nodes"]
}
"""The unsupported constructs by tree-sitter's name: the common name, and the replacement."""
CODE: Final[Mapping[str, str]] = {
    node: row["code"] for row in _TABLES["construct"] if "code" in row for node in row["nodes"]
}
"""What describes no data, by tree-sitter's name, in the plural: it may be left out."""
NOT_JSON: Final[Mapping[str, str]] = _TABLES["not_json"]
"""The types of TypeScript that JSON has no values of, each with its replacement."""


def no_json(name: str) -> str:
    """Return why a type of TypeScript is refused that JSON has no values of, and what to write instead."""
    return f"the type '{name}' has no equivalent in JSON; {NOT_JSON[name]}"
