"""Settings for the tests of the generator."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generate here, as on a machine with one core: a small revision is made before a process has started."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
