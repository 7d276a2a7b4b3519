"""Module attributes that import what they stand for on first use (PEP 562).

A submodule that is asked for by name is imported when something in it is asked for: whoever names types only in
annotations that are not evaluated, and in functions, pays for none of them at start-up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType


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
            module = f"{package}.{name}"
            return sys.modules.get(module) or _Later(module)
        value: object = getattr(import_module(f"{package}.{home}"), name)
        import_module(package).__dict__[name] = value
        return value

    return get, lambda: sorted(homes)


class _Later(ModuleType):
    """Stands for a submodule that is imported when something in it is asked for, from whichever thread."""

    def __getattr__(self, name: str) -> object:
        found = import_module(self.__name__)
        self.__dict__.update(found.__dict__)
        return getattr(found, name)

    def __dir__(self) -> list[str]:
        return dir(import_module(self.__name__))
