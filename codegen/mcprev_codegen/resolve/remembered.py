"""Methods that answer each question once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Owner = TypeVar("Owner")
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def remembered(method: Callable[[Owner, Asked], Answer]) -> Callable[[Owner, Asked], Answer]:
    """Return a method whose object remembers what it returned for each argument."""

    @wraps(method)
    def found(self: Owner, asked: Asked) -> Answer:
        known: dict[Asked, Answer] = self.__dict__.setdefault(f"_{method.__name__} remembered", {})
        if asked not in known:
            known[asked] = method(self, asked)
        return known[asked]

    return found
