"""Module attributes that import what they stand for on first use (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy(
    package: str, exports: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for names that live in submodules of a package, given by submodule.

    The names under the empty key are submodules themselves.
    """
    homes = {name: module for module, names in exports.items() for name in names}

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        home = homes[name]
        if not home:
            return import_module(f"{package}.{name}")
        value: object = getattr(import_module(f"{package}.{home}"), name)
        import_module(package).__dict__[name] = value
        return value

    return get, lambda: sorted(homes)
