"""Caches the pinned revisions for all diff tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcprev_codegen.facts.revision import Revision
from support import load


def _once(_folder: Path, revision: str) -> Revision:
    return load(revision)


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("inputs", "comparison.revisions", "report.histories"):
        monkeypatch.setattr(f"mcprev_codegen.diff.{module}.load_revision", _once)
