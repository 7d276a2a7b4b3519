"""What the files of a schema declare, import and export, before any type is read.

A file is a module; `declare module "name"` is one too, in parts of which each may be in another file. The first file is the
one that is asked for; others are read when a name leads to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from tree_sitter import Node

from mcprev_codegen import ir
from mcprev_codegen.typescript.reader.text.source_file import Text, named_children, node_text

_REFERENCE: Final = re.compile(r"\s*<reference\s+(?P<kind>path|types|lib)\s*=\s*[\"'](?P<value>[^\"']+)[\"']")


class Sources(Protocol):
    """Where the files are that a schema imports."""

    def find(self, name: str, importer: str) -> str | None:
        """Return the path of the file that a module's name means in a file with a path; None if there is none."""
        ...

    def read(self, path: str) -> str:
        """Return the text of a file that was found. Raises `CodegenError`."""
        ...


@dataclass(frozen=True, eq=False)
class Statement:
    """A declaration before it is read."""

    name: str
    """The name in the IR of one in the first file: `AB` for the type B of the namespace A, `A_B` for a constant."""
    own_name: str
    module: SourceModule
    namespace: str
    """The path of the namespace, with a dot at its end; empty at the top level."""
    text: Text
    """The file that it is in."""
    node: Node
    tags: ir.Tags
    doc: ir.Doc
    trailing: Sequence[Node]
    more: tuple[Statement, ...] = ()
    """The further declarations of an interface, which TypeScript merges with the first."""

    @property
    def is_constant(self) -> bool:
        """Whether this declares a constant rather than a type."""
        return self.node.type == "lexical_declaration"

    @property
    def path(self) -> str:
        """The path in its module: `A.B` in a namespace."""
        return f"{self.namespace}{self.own_name}"


@dataclass(frozen=True)
class Import:
    """A name that stands for one of another module, or for all of them."""

    source: str
    name: str
    """The name there; `*` for the module itself."""


@dataclass(eq=False)
class SourceModule:
    """One file, or all parts of a module with a name in quotes."""

    path: str
    """The file's path; for a module with a name in quotes, that of the file that first declares it."""
    name: str
    """What stands in front of a name that clashes."""
    outer: SourceModule | None = None
    """The file around a module with a name in quotes, whose names it sees."""
    types: dict[str, Statement] = field(default_factory=dict[str, Statement])
    """The types by path: `A.B` in a namespace."""
    constants: dict[str, Statement] = field(default_factory=dict[str, Statement])
    """The constants by path, which may have the names of types."""
    namespaces: set[str] = field(default_factory=set[str])
    code: dict[str, Node] = field(default_factory=dict[str, Node])
    """What describes no data, such as classes, by path."""
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    """The names that stand for others of the module, by path."""
    imports: dict[str, Import] = field(default_factory=dict[str, Import])
    exports: dict[str, str | Import] = field(default_factory=dict[str, "str | Import"])
    """The names that it exports under another name, or from another module."""
    stars: list[str] = field(default_factory=list[str])
    """The modules all of whose names it exports."""
    equals: str | None = None
    """What `export =` exports as the module itself."""

    def declared(self, *, constants: bool) -> Mapping[str, Statement]:
        """Return the types or the constants by path."""
        return self.constants if constants else self.types


def imported(node: Node) -> Iterator[tuple[str, Import]]:
    """Yield the names that an import statement brings, each with what it stands for."""
    source = source_name(node)
    for clause in named_children(node):
        if clause.type == "import_require_clause":
            yield node_text(named_children(clause)[0]), Import(source_name(clause), "*")
        if clause.type != "import_clause":
            continue
        for part in named_children(clause):
            if part.type == "identifier":
                yield node_text(part), Import(source, "default")
            elif part.type == "namespace_import":
                yield node_text(named_children(part)[0]), Import(source, "*")
            else:
                for specifier in named_children(part):
                    names = [*map(node_text, named_children(specifier))]
                    yield names[-1], Import(source, names[0])


def source_name(node: Node) -> str:
    """Return the name of the module in a statement, in quotes; an empty one if there is none."""
    source = node.child_by_field_name("source") or node.child_by_field_name("name")
    return node_text(source)[1:-1] if source is not None and source.type == "string" else ""


def triple_slash_references(text: str) -> Iterator[tuple[str, str]]:
    """Yield the triple-slash references at the start of a file: `path`, `types` or `lib`, and the value."""
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped.startswith("///") and (found := _REFERENCE.match(stripped[3:])):
            yield found["kind"], found["value"]
        elif stripped and not stripped.startswith(("//", "/*", "*")):
            return
