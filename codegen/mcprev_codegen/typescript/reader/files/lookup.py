"""Finds what a name means: in namespaces from the innermost one out, in imports and exports of modules, and in globals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mcprev_codegen.typescript.bounds import MAX_CHAIN
from mcprev_codegen.typescript.reader.files.collecting import Collector
from mcprev_codegen.typescript.reader.files.modules import Import, SourceModule, Statement

_DEFAULT: Final = "default"


@dataclass(frozen=True)
class NameScope:
    """Where a name stands."""

    module: SourceModule
    namespace: str = ""
    """The path of the namespace, with a dot at its end; empty at the top level."""


@dataclass(frozen=True)
class _Wanted:
    """What is looked for, and where already."""

    constants: bool
    seen: frozenset[str] = frozenset()

    def having(self, place: str) -> _Wanted | None:
        """Return the same with a further place; None for one where it was looked for, or after too many."""
        known = place in self.seen or len(self.seen) == MAX_CHAIN
        return None if known else _Wanted(self.constants, self.seen | {place})


class Lookup:
    """Finds declarations in all modules of a schema."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._found: dict[tuple[NameScope, str, bool], Statement] = {}

    def find(self, scope: NameScope, path: str, *, constants: bool = False) -> Statement | None:
        """Return the type or constant that a path such as `A.B` names here; None if nothing does."""
        key = scope, path, constants
        found = self._found.get(key) or self._find(scope, path, _Wanted(constants))
        if found is not None:
            self._found[key] = found
        return found

    def missing(self, scope: NameScope, path: str) -> str | None:
        """Return the module that a name is imported from and that cannot be found; None for any other name."""
        first = path.partition(".")[0]
        for module in _modules(scope):
            brought = module.imports.get(first)
            if brought is not None:
                return None if self._collector.find(brought.source, module) else brought.source
        return None

    def is_code(self, scope: NameScope, path: str) -> bool:
        """Return whether a path names what describes no data, such as a class."""
        outer = scope.namespace
        while True:
            if f"{outer}{path}" in scope.module.code:
                return True
            if not outer:
                break
            outer = outer[: outer.rfind(".", 0, -1) + 1]
        brought = scope.module.imports.get(path)
        target = self._collector.find(brought.source, scope.module) if brought else None
        return (
            target is not None
            and brought is not None
            and self._exports_code(target, brought.name, frozenset())
        )

    def _exports_code(self, module: SourceModule, name: str, seen: frozenset[tuple[str, str]]) -> bool:
        if (module.path, name) in seen or len(seen) == MAX_CHAIN:
            return False
        seen |= {(module.path, name)}
        exported = module.exports.get(name, name)
        if isinstance(exported, str):
            if exported in module.code:
                return True
            exported = module.imports.get(exported, exported)
        if isinstance(exported, Import):
            target = self._collector.find(exported.source, module)
            return target is not None and self._exports_code(target, exported.name, seen)
        targets = (self._collector.find(source, module) for source in module.stars)
        return any(target is not None and self._exports_code(target, name, seen) for target in targets)

    def exported(self, module: SourceModule) -> Iterator[tuple[str, Statement]]:
        """Yield the types and constants that a module exports, each with its name outside."""
        for constants in (False, True):
            for name in dict.fromkeys(self._names(module, frozenset())):
                found = self._exported(module, name, _Wanted(constants))
                if found is not None:
                    yield name, found

    def exported_as(self, module: SourceModule, name: str, *, constants: bool) -> Statement | None:
        """Return what a module exports under a name; None if it exports none."""
        return self._exported(module, name, _Wanted(constants))

    def _names(self, module: SourceModule, seen: frozenset[str]) -> Iterator[str]:
        for path, statement in (*module.types.items(), *module.constants.items()):
            if "." not in path or statement.namespace:
                yield path
        yield from (name for name in module.exports if name != _DEFAULT)
        for source in module.stars:
            target = self._collector.find(source, module)
            if target is not None and target.path not in seen and len(seen) < MAX_CHAIN:
                yield from self._names(target, seen | {target.path})

    def _find(self, scope: NameScope, path: str, want: _Wanted) -> Statement | None:
        key = f"{id(scope.module)}:{scope.namespace}:{path}"
        inner = want.having(key)
        if inner is None:
            return None
        want = inner
        first, dot, rest = path.partition(".")
        for module in _modules(scope):
            outer = scope.namespace if module is scope.module else ""
            while True:
                if not dot:
                    found = self._member(module, f"{outer}{path}", want)
                    if found is not None:
                        return found
                elif f"{outer}{first}" in module.namespaces:
                    return self._inside(module, f"{outer}{first}.", rest, want)
                elif f"{outer}{first}" in module.aliases:
                    target = f"{module.aliases[f'{outer}{first}']}.{rest}"
                    return self._find(NameScope(module, outer), target, want)
                if not outer:
                    break
                outer = outer[: outer.rfind(".", 0, -1) + 1]
            brought = module.imports.get(first)
            if brought is not None:
                found = self._brought(module, brought, rest, want)
                if found is not None:
                    return found
        for module in self._collector.globals:
            if module not in _modules(scope):
                found = self._inside(module, "", path, want)
                if found is not None:
                    return found
        known = self._collector.known_as.get(first) if dot else None
        return None if known is None else self._exported(known, rest, want)

    def _member(self, module: SourceModule, path: str, want: _Wanted) -> Statement | None:
        """Return what is declared at a path of a module, or what its other name there stands for."""
        found = module.declared(constants=want.constants).get(path)
        if found is None and path in module.aliases:
            return self._find(NameScope(module, path[: path.rfind(".") + 1]), module.aliases[path], want)
        return found

    def _inside(self, module: SourceModule, namespace: str, path: str, want: _Wanted) -> Statement | None:
        """Return what a path names in a namespace, or at the top level of a module."""
        first, dot, rest = path.partition(".")
        if not dot:
            return self._member(module, f"{namespace}{path}", want)
        if f"{namespace}{first}" in module.namespaces:
            return self._inside(module, f"{namespace}{first}.", rest, want)
        if f"{namespace}{first}" in module.aliases:
            target = f"{module.aliases[f'{namespace}{first}']}.{rest}"
            return self._find(NameScope(module, namespace), target, want)
        return None if namespace else self._exported(module, path, want)

    def _brought(self, module: SourceModule, brought: Import, rest: str, want: _Wanted) -> Statement | None:
        """Return what an import, or a part of it, stands for."""
        target = self._collector.find(brought.source, module)
        if target is None:
            return None
        if brought.name == "*":
            return self._exported(target, rest, want) if rest else None
        name = f"{brought.name}.{rest}" if rest else brought.name
        return self._exported(target, name, want)

    def _exported(self, module: SourceModule, path: str, want: _Wanted) -> Statement | None:
        """Return what a module exports under a name."""
        key = f"{id(module)}!{path}"
        inner = want.having(key)
        if inner is None:
            return None
        want = inner
        first, dot, rest = path.partition(".")
        if module.equals is not None:
            part = rest if first == _DEFAULT else path
            target = f"{module.equals}.{part}" if part else module.equals
            return self._find(NameScope(module), target, want)
        if first in module.exports:
            exported = module.exports[first]
            if isinstance(exported, Import):
                return self._brought(module, exported, rest, want)
            return self._find(NameScope(module), f"{exported}{dot}{rest}", want)
        if not dot or first in module.namespaces or first in module.aliases:
            found = self._inside(module, "", path, want)
            if found is not None:
                return found
        if first in module.imports:  # `import { A } from "x"; export { A }`
            found = self._brought(module, module.imports[first], rest, want)
            if found is not None:
                return found
        for source in module.stars:
            target_module = self._collector.find(source, module)
            if target_module is not None:
                found = self._exported(target_module, path, want)
                if found is not None:
                    return found
        return None


def _modules(scope: NameScope) -> list[SourceModule]:
    """Return the modules whose names are seen in one: itself, and the file around it."""
    found: list[SourceModule] = []
    module: SourceModule | None = scope.module
    while module is not None and module not in found:
        found.append(module)
        module = module.outer
    return found
