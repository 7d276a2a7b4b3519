"""Module attributes that are imported on first use (PEP 562).

A program that uses types only in annotations that are not evaluated imports none of them at start-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy(
    module: dict[str, Any], exports: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for names that are defined in other modules.

    `module` is the namespace of the exporting module. `exports` lists the names by module, relative to its package;
    the names under `.` are modules.
    """
    homes = {name: home for home, names in exports.items() for name in names}
    package: str = module["__package__"]

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module '{module['__name__']}' has no attribute '{name}'")
        home = homes[name]
        value = (
            import_module(f".{name}", package) if home == "." else getattr(import_module(home, package), name)
        )
        module[name] = value
        return value

    names = sorted(homes)
    return get, lambda: names, names
