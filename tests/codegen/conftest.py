"""Settings for the tests of the generator."""

from __future__ import annotations

import functools
import os

import pytest

from mcprev_codegen.emit import rendering, shared
from mcprev_codegen.python import formatting

_formatted = functools.cache(formatting.format_python)


@pytest.fixture(autouse=True)
def format_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same text is formatted once for all tests that generate it."""
    for module in (rendering, shared):
        monkeypatch.setattr(module, "format_python", _formatted)


@pytest.fixture
def in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generate here, as on a machine with one core: a small revision is made before a process has started."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
