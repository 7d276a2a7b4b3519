"""Formats generated Python with black."""

from __future__ import annotations

from black import Mode, format_str
from black.mode import TargetVersion

from mcprev_codegen.python.writers import LINE_LENGTH


def format_python(text: str) -> str:
    """Return Python source as black formats it."""
    return format_str(text, mode=Mode(target_versions={TargetVersion.PY311}, line_length=LINE_LENGTH))
