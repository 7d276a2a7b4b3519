"""Chooses the declarations of a schema that are generated: the roots, and what they reach.

Without roots, all of the first file are wanted, and what needs something that describes no data is left out and told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn

from mcprev_codegen import ir
from mcprev_codegen.errors import InputError, NoDataError, SchemaError
from mcprev_codegen.typescript.reader.files.modules import Statement
from mcprev_codegen.typescript.reader.generics import Generics
from mcprev_codegen.typescript.reader.naming import DeclarationNames
from mcprev_codegen.typescript.reader.text.source_file import SourceFile, type_parameters

_SHOWN: Final = 10


@dataclass
class Needed:
    """The declarations that are wanted, read as far as they can be."""

    _file: SourceFile
    _names: DeclarationNames
    _declaration: Callable[[Statement], ir.Decl | None]
    """Returns a declaration; None for one that is none by itself."""
    _parametric: Callable[[Statement], list[ir.Decl]]
    """Returns what an exported generic is by itself."""
    _generics: Generics
    strict: bool
    told: list[str] = field(default_factory=list[str])
    """What is left out, one line for each kind."""
    _read: dict[str, ir.Decl] = field(default_factory=dict[str, ir.Decl])
    _users: dict[str, str] = field(default_factory=dict[str, str])
    """The declaration that first needed each one."""
    _refused: dict[str, NoDataError] = field(default_factory=dict[str, NoDataError])
    """The declarations that cannot be read, as they are no data."""

    def decls(self, roots: Sequence[str]) -> tuple[ir.Decl, ...]:
        """Return the declarations that are generated, those of the first file first, in the order of their files.

        Raises `SchemaError` for one that cannot be read and is needed, with the path to it from its root.
        """
        own = [name for name, one in self._names.taken.items() if one.text is self._file.first]
        wanted = [self._root(root) for root in roots] or [
            *dict.fromkeys((*self._names.taken, *self._names.aliases))
        ]
        self._reach(wanted, fatal=self.strict or bool(roots))
        if not roots:
            self._leave_out_users()
        if self._refused and not any(not isinstance(d, ir.Const) for d in self._read.values()):
            raise next(iter(self._refused.values()))
        return self._ordered(own)

    def _root(self, root: str) -> str:
        name = root.replace(".", "")
        if self._names.is_taken(name):
            return name
        raise InputError(f"{self._file.first.path}: it declares and exports no type '{root}' to begin with")

    def _reach(self, wanted: Iterable[str], *, fatal: bool) -> None:
        """Read declarations and all that they refer to."""
        pending = deque(wanted)
        seen = {*pending}
        while pending:
            name = pending.popleft()
            try:
                found = self._found(name)
            except NoDataError as error:
                if fatal:
                    self._refuse(name, error)
                self._refused[name] = error
                continue
            except SchemaError as error:
                if self._users.get(name):
                    self._refuse(name, error)
                raise
            for decl in found:
                self._read[decl.name] = decl
                for other in _references(decl):
                    if other not in seen:
                        seen.add(other)
                        self._users[other] = decl.name
                        pending.append(other)

    def _found(self, name: str) -> list[ir.Decl]:
        if name in self._names.aliases:
            statement = self._names.aliases[name]
            other = self._declaration(statement)
            return (
                []
                if other is None
                else [ir.Alias(name, ir.Ref(self._names.of(statement)), doc=other.doc, span=other.span)]
            )
        if name in self._names.taken:
            statement = self._names.taken[name]
            if type_parameters(statement.node):
                return self._parametric(statement)
            decl = self._declaration(statement)
        else:
            decl = self._generics.instance(name)
        return [] if decl is None else [decl]

    def _refuse(self, name: str, error: SchemaError) -> NoReturn:
        """Raise an error with the path to its declaration from the root."""
        path = self._path(name)
        message = f"{error.message} (needed by {path})" if "->" in path else error.message
        raise SchemaError(message, error.path, error.line, error.column, error.source_line) from None

    def _path(self, name: str) -> str:
        """Return how a declaration is reached from its root, such as `A.b -> B`."""
        steps = [name]
        while name in self._users and len(steps) < 100:
            user = self._users[name]
            steps.append(f"{user}{_member(self._read[user], name)}" if user in self._read else user)
            name = user
        return " -> ".join(reversed(steps))

    def _leave_out_users(self) -> None:
        """Leave out what refers to a declaration that is left out, directly or through others; tell it by kind."""
        users: dict[str, list[str]] = {}
        for decl in self._read.values():
            for other in _references(decl):
                users.setdefault(other, []).append(decl.name)
        kinds: dict[str, dict[str, str]] = {}
        pending = deque((name, name, error) for name, error in self._refused.items())
        gone: dict[str, None] = {}
        while pending:
            name, cause, error = pending.popleft()
            if name in gone:
                continue
            gone[name] = None
            culprit = "" if name == cause else f" ({name}{_member(self._read[name], cause)} -> {cause})"
            kinds.setdefault(error.kind, {})[f"'{name}'{culprit}"] = error.headline
            pending += [(user, name, error) for user in users.get(name, ())]
        for name in gone:
            self._read.pop(name, None)
        for kind, found in kinds.items():
            shown, more = [*found][:_SHOWN], len(found) - _SHOWN
            listed = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
            self.told.append(
                f"{next(iter(found.values()))}; {len(found)} declarations are left out for {kind}: {listed}"
            )

    def _ordered(self, own: Sequence[str]) -> tuple[ir.Decl, ...]:
        files: dict[str, int] = {self._file.first.path: 0}
        place: dict[str, tuple[int, int, int]] = {}
        for name in [*own, *self._read]:
            if name in self._names.taken:
                statement = self._names.taken[name]
                number = files.setdefault(statement.text.path, len(files))
                place[name] = number, statement.node.start_byte, 0
        for generic, decls in self._generics.made.items():
            statement = self._names.taken[generic]
            number = files.setdefault(statement.text.path, len(files))
            for n, decl in enumerate(decls):  # a type parameter stands before the first generic that has it
                here = number, statement.node.start_byte, n
                parameter = isinstance(decl, ir.Alias) and decl.parameter
                place[decl.name] = min(here, place.get(decl.name, here)) if parameter else here
        last = len(files), 0, 0
        return tuple(sorted(self._read.values(), key=lambda decl: place.get(decl.name, last)))


def _references(decl: ir.Decl) -> list[str]:
    """Return the types and constants that a declaration refers to, each once."""
    found = (node.name for node in ir.walk(decl) if isinstance(node, ir.Ref | ir.ConstRef))
    return [*dict.fromkeys(found)]


def _member(decl: ir.Decl, other: str) -> str:
    """Return the member of a declaration that refers to another one, with a dot."""
    fields = decl.fields if isinstance(decl, ir.Interface) else ()
    return next((f".{f.name}" for f in fields if other in ir.references(f)), "")
