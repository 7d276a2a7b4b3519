"""The contract suite, on each store; these are the tests that a user's own store passes too.

The module does not import pytest, because the processes that the tests start import it.
"""

from __future__ import annotations

import hashlib
import os
from typing import ClassVar

from typing_extensions import override

from mcprev import MemoryStore, Store, open_store
from mcprev.testing.shared_stores import SharedStoreContract
from mcprev.testing.stores import StoreContract


class TestMemory(StoreContract):
    """The store in memory: stores of one place are one."""

    places: ClassVar[dict[str, MemoryStore]] = {}

    @override
    def store(self, place: str) -> Store:
        return self.places.setdefault(place, MemoryStore())


class TestSqlite(SharedStoreContract):
    """The store in an SQLite file."""

    @override
    def store(self, place: str) -> Store:
        return open_store(f"sqlite:///{place}")


class TestRedis(SharedStoreContract):
    """The store in a real Redis, which `conftest.py` starts."""

    @override
    def store(self, place: str) -> Store:
        prefix = hashlib.sha256(place.encode()).hexdigest()[:12]
        return open_store(f"unix://{os.environ['MCPREV_TESTS_REDIS']}?prefix={prefix}")
