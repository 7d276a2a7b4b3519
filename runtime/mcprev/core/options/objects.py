"""Whether the object that is passed as an option can be used as one."""

from __future__ import annotations


def check_option(name: str, given: object, method: str, instead: str) -> None:
    """Raise `TypeError`, which advises to pass `instead`, for a value other than None without a method of its type.

    The value is not shown: it may be a secret.
    """
    if isinstance(given, type):
        raise TypeError(f"`{name}` is the class {given.__name__}, not an object; pass {instead}")
    if given is not None and not hasattr(given, method):
        raise TypeError(f"`{name}` must not be a {type(given).__name__}; pass {instead}")


def check_store(store: object) -> None:
    """Raise `TypeError` for a value that is neither None nor `Records`."""
    check_option("store", store, "read", "a store, such as mcprev.open_store('sqlite:///app.db')")
