"""The names that declarations get in the IR.

Those of the first file keep theirs. One that a further file declares keeps its own unless another type has it; then the name
of its module stands in front, and it is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mcprev_codegen.typescript.reader.files.collecting import Collector
from mcprev_codegen.typescript.reader.files.lookup import Lookup
from mcprev_codegen.typescript.reader.files.modules import Import, SourceModule, Statement
from mcprev_codegen.typescript.reader.text.source_file import SourceFile
from mcprev_codegen.typescript.reader.types.values import is_composite

_KEYWORD: Final = "default"


class DeclarationNames:
    """The names of the declarations of a schema."""

    def __init__(self, file: SourceFile, collector: Collector, lookup: Lookup, *, strict: bool) -> None:
        self._file = file
        self._collector = collector
        self._lookup = lookup
        self._strict = strict
        self._names: dict[tuple[int, bool, str], str] = {}
        self.taken: dict[str, Statement] = {}
        """The statements by name in the IR."""
        self.aliases: dict[str, Statement] = {}
        """The further names under which the first file exports its types and those of others."""

    def give_first(self) -> None:
        """Give the declarations of the first file their names, and those that it exports from others."""
        first = self._file.first
        modules = [self._collector.first, *self._collector.others_of_first()]
        own = [
            statement
            for module in modules
            for statement in (*module.types.values(), *module.constants.values())
            if statement.text is first or any(more.text is first for more in statement.more)
        ]
        for statement in sorted(own, key=lambda one: one.node.start_byte if one.text is first else 0):
            self._give_own(statement)
        for name, statement in [*self._exports(self._collector.first)]:
            self._export(name, statement)

    def of(self, statement: Statement) -> str:
        """Return the name of a declaration in the IR."""
        key = _key(statement)
        if key not in self._names:
            self._give(statement, self._free(statement))
        return self._names[key]

    def is_taken(self, name: str) -> bool:
        """Return whether a declaration has a name in the IR."""
        return name in self.taken or name in self.aliases

    def _give(self, statement: Statement, name: str) -> None:
        self._names[_key(statement)] = name
        self.taken[name] = statement

    def _free(self, statement: Statement) -> str:
        """Return a name that no other declaration has, for one of a further file."""
        if not self.is_taken(statement.name):
            return statement.name
        found = name = f"{statement.module.name}{statement.name}"
        number = 1
        while self.is_taken(found):
            number += 1
            found = f"{name}{number}"
        with self._file.reading(statement.text):
            self._file.warn(
                statement.node, f"'{statement.name}' is called '{found}', since another type has its name"
            )
        return found

    def _give_own(self, statement: Statement) -> None:
        """Name a declaration of the first file; a constant that has the name of a type gets a `_` behind it."""
        if statement.is_constant and is_composite(statement.node):
            return
        first = self.taken.get(statement.name)
        if first is None:
            self._give(statement, statement.name)
        elif first.is_constant != statement.is_constant:
            constant, type_ = (statement, first) if statement.is_constant else (first, statement)
            self._refuse_taken(statement, f"{constant.name}_")
            self._give(type_, type_.name)
            self._give(constant, f"{constant.name}_")
        elif self._strict:
            self._refuse_taken(statement, statement.name)
        else:
            self._give(statement, self._free(statement))

    def _refuse_taken(self, statement: Statement, name: str) -> None:
        if name in self.taken:
            outer = statement.node.parent
            self._file.fail(
                outer if outer is not None and outer.type == "export_statement" else statement.node,
                f"the generated name '{name}' is that of another type; rename one of them",
            )

    def _exports(self, module: SourceModule) -> Iterator[tuple[str, Statement]]:
        """Yield what the first file exports under other names, and from other files."""
        for name, exported in module.exports.items():
            if isinstance(exported, Import) and exported.name == "*":
                target = self._collector.find(exported.source, module)
                for inner, statement in self._lookup.exported(target) if target else ():
                    yield f"{name}{inner.replace('.', '')}", statement
            else:
                yield from self._found(module, name)
        for source in module.stars:
            target = self._collector.find(source, module)
            for name, statement in self._lookup.exported(target) if target else ():
                yield name.replace(".", ""), statement

    def _found(self, module: SourceModule, name: str) -> Iterator[tuple[str, Statement]]:
        for constants in (False, True):
            statement = self._lookup.exported_as(module, name, constants=constants)
            if statement is not None:
                yield statement.name if name == _KEYWORD else name, statement

    def _export(self, name: str, statement: Statement) -> None:
        """Name what the first file exports; a further name of a type is one of an alias."""
        if statement.is_constant and is_composite(statement.node):
            return
        known = self._names.get(_key(statement))
        if known is None and not self.is_taken(name):
            self._give(statement, name)
        elif known is None:
            self.of(statement)
        elif known != name and not self.is_taken(name):
            exported = statement.node.parent is not None and statement.node.parent.type == "export_statement"
            if statement.text is self._file.first and not exported and known not in self.aliases:
                del self.taken[known]
                self._give(statement, name)
            elif not statement.is_constant:
                self.aliases[name] = statement


def _key(statement: Statement) -> tuple[int, bool, str]:
    return id(statement.module), statement.is_constant, statement.path
