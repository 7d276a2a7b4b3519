"""Has all diff tests share what they read of the schema folder."""

from __future__ import annotations

import pytest

from helpers.support import FOLDER


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcprev_codegen.inputs.schema_folder", lambda: FOLDER)
