"""Collects what files declare, import and export, before any type in them is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePath
from typing import Final

from tree_sitter import Node

from mcprev_codegen.ir import pascal_case
from mcprev_codegen.typescript.bounds import MAX_CHAIN, MAX_DECLARATIONS, MAX_DEPTH, MAX_FILES
from mcprev_codegen.typescript.jsdoc import is_heading
from mcprev_codegen.typescript.reader.files.modules import (
    Import,
    SourceModule,
    Sources,
    Statement,
    imported,
    source_name,
    triple_slash_references,
)
from mcprev_codegen.typescript.reader.text.source_file import (
    SourceFile,
    Text,
    named_children,
    node_text,
    type_parameters,
)
from mcprev_codegen.typescript.reader.unsupported import CODE

_TYPES: Final = ("interface_declaration", "type_alias_declaration", "enum_declaration")
_NAMESPACES: Final = ("internal_module", "module")
_FUNCTION: Final = "function_signature"


class Collector:
    """The modules of one schema; those that the first file leads to are read when they are asked for."""

    def __init__(self, file: SourceFile, sources: Sources | None, *, strict: bool) -> None:
        self._file = file
        self._sources = sources
        self._strict = strict
        self._texts: dict[str, Text] = {}
        self._files: dict[str, SourceModule] = {}
        self._quoted: dict[str, SourceModule] = {}
        """The modules with a name in quotes."""
        self.globals: list[SourceModule] = []
        """The modules whose names all files see: those without imports and exports, and `declare global`."""
        self.known_as: dict[str, SourceModule] = {}
        """The modules that all files see under a name, by `export as namespace`."""
        self._found: dict[tuple[str, str], SourceModule | None] = {}
        self.first = self._module(file.first)
        self.left_out: dict[str, list[tuple[Text, Node]]] = {}
        """What describes no data, by its kind."""
        self._count = 0
        self._depth = 0

    def collect(self) -> None:
        """Find the declarations of the first file, and of those whose names it sees everywhere."""
        self._read(self.first, self._file.first)

    @property
    def lines(self) -> dict[str, Sequence[str]]:
        """The lines of the further files, by path."""
        return {path: text.lines for path, text in self._texts.items() if text is not self._file.first}

    def others_of_first(self) -> list[SourceModule]:
        """Return the modules with names in quotes, and those of globals, which may have parts in the first file."""
        return [*dict.fromkeys((*self._quoted.values(), *self.globals))]

    def find(self, name: str, importer: SourceModule) -> SourceModule | None:
        """Return the module that a name means in another one; None if there is none."""
        key = name, importer.path
        if key not in self._found:
            self._found[key] = None
            path = self._sources.find(name, importer.path) if self._sources else None
            found = self._open(path) if path is not None else None
            self._found[key] = self._quoted.get(name) or found
        return self._found[key]

    def leave_out(self, node: Node, kind: str) -> None:
        """Leave out what describes no data. Raises `SchemaError` if nothing is to be left out."""
        self.left_out.setdefault(kind, []).append((self._file.text, node))

    # -- files ---------------------------------------------------------------------------------------

    def _module(self, text: Text) -> SourceModule:
        self._texts[text.path] = text
        path = PurePath(text.path)
        stem = path.name.partition(".")[0]
        found = SourceModule(text.path, pascal_case(path.parent.name if stem == "index" else stem))
        self._files[text.path] = found
        return found

    def _open(self, path: str) -> SourceModule:
        if path in self._files:
            return self._files[path]
        if len(self._files) == MAX_FILES or self._depth == MAX_CHAIN:
            self._file.fail(
                self._file.root,
                f"more than {MAX_FILES} files, or {MAX_CHAIN} that refer to one another, are not supported",
            )
        assert self._sources is not None
        text = Text(self._sources.read(path), path)
        found = self._module(text)
        self._depth += 1
        with self._file.reading(text):
            self._file.reject_syntax_errors()
            self._read(found, text)
        self._depth -= 1
        return found

    def _read(self, module: SourceModule, text: Text) -> None:
        self._collect(module, text.root, "")
        is_module = any(
            node.type in ("import_statement", "export_statement") for node in named_children(text.root)
        )
        if not is_module and module is not self.first:
            self.globals.append(module)
        if self._sources is None:
            return
        for kind, value in triple_slash_references("\n".join(text.lines[:400])):
            path = (
                self._sources.find(value if kind == "types" else f"./{value}", text.path)
                if kind != "lib"
                else None
            )
            if path is not None:
                self._open(path)

    # -- statements ----------------------------------------------------------------------------------

    def _collect(self, module: SourceModule, body: Node, namespace: str) -> None:
        """Find the declarations in a file, module or namespace."""
        listed: list[Node] = []
        for node, leading, trailing in self._file.siblings(body):
            if _has_no_effect(node):
                continue
            if node.type == "import_statement" and self._sources is not None:
                module.imports |= dict(imported(node))
                continue
            if node.type == "export_statement" and self._exports(module, node, namespace, listed):
                continue
            inner = self._declaration(node)
            if inner is None:
                continue
            if inner.type == "import_alias":
                alias, target = named_children(inner)
                module.aliases[f"{namespace}{node_text(alias)}"] = node_text(target)
            elif inner.type == "statement_block":
                self._collect_global(module, inner)
            elif inner.type in _NAMESPACES:
                self._collect_namespace(module, inner, namespace)
            else:
                self._add(module, node, namespace, inner, leading, trailing)
        for node in listed:
            self._refuse_undeclared(module, node, namespace)

    def _refuse_undeclared(self, module: SourceModule, node: Node, namespace: str) -> None:
        path = f"{namespace}{node_text(node)}"
        known: Iterable[str] = chain(
            module.types, module.constants, module.namespaces, module.code, module.aliases
        )
        if module is self.first and path not in known and path not in module.imports and not namespace:
            self._file.fail(node, f"'{node_text(node)}' is not declared in this file")

    def _exports(self, module: SourceModule, node: Node, namespace: str, listed: list[Node]) -> bool:
        """Add what a statement exports that declares nothing; return whether it is one."""
        source = source_name(node)
        if node.child_by_field_name("declaration") is not None or (source and self._sources is None):
            return False
        kinds = {child.type: child for child in named_children(node)}
        value = node.child_by_field_name("value")
        if [child.type for child in node.children[1:3]] == ["as", "namespace"]:
            self.known_as.setdefault(node_text(named_children(node)[0]), module)
            return True
        if "export_clause" in kinds:
            return self._export_list(module, kinds["export_clause"], source, namespace, listed)
        if self._sources is None:
            return False
        if "namespace_export" in kinds:
            module.exports[node_text(named_children(kinds["namespace_export"])[0])] = Import(source, "*")
        elif source:
            module.stars.append(source)
        elif value is not None and value.type in ("identifier", "member_expression"):
            module.exports["default"] = node_text(value)
        elif node.children[1].type == "=" and len(kinds) == 1:
            module.equals = node_text(named_children(node)[0])
        else:
            return False
        return True

    def _export_list(
        self, module: SourceModule, clause: Node, source: str, namespace: str, listed: list[Node]
    ) -> bool:
        """Add the names of `export { A, B as C }`; return whether they can be read."""
        for specifier in named_children(clause):
            names = named_children(specifier)
            own, outer = node_text(names[0]), node_text(names[-1])
            if len(names) > 1 and self._sources is None:
                return False
            if source:
                module.exports[outer] = Import(source, own)
            elif namespace:
                module.aliases[f"{namespace}{outer}"] = own
            elif own != outer:
                module.exports[outer] = own
            if not source:
                listed.append(names[0])
        return True

    def _declaration(self, node: Node) -> Node | None:
        """Return the declaration in a statement, exported, ambient or not; None for one that describes no data."""
        where, inner = "at the top level", node
        if inner.type == "export_statement":
            declaration = inner.child_by_field_name("declaration")
            default = any(child.type == "default" for child in inner.children)
            if declaration is None and not self._strict and default:
                self.leave_out(node, "values")
                return None
            if declaration is None or (default and self._sources is None):
                self._file.unsupported(inner, where)
            where, inner = "as an exported declaration", declaration
        if inner.type == "ambient_declaration":
            if inner.children[1].type == "global" and self._sources is None:
                self._file.unsupported(inner, where)
            inner = named_children(inner)[0]
        elif inner.type == "expression_statement":
            inner = named_children(inner)[0]
        known = (*_TYPES, *_NAMESPACES, "lexical_declaration", _FUNCTION)
        if inner.type in known or (
            inner.type in ("import_alias", "statement_block") and self._sources is not None
        ):
            return inner
        if inner.type in CODE and not self._strict:
            return inner
        if not self._strict and inner.type.endswith(("_statement", "_expression")):
            self.leave_out(node, "statements")
            return None
        self._file.unsupported(inner, where)

    def _add(
        self,
        module: SourceModule,
        node: Node,
        namespace: str,
        inner: Node,
        leading: Sequence[Node],
        trailing: Sequence[Node],
    ) -> None:
        if inner.type == _FUNCTION or inner.type in CODE:
            code_name = inner.child_by_field_name("name")
            self.leave_out(inner, CODE.get(inner.type, "functions"))
            if code_name is not None:
                module.code[f"{namespace}{node_text(code_name)}"] = inner
            return
        own_name = self._name(inner)
        if own_name is None:
            return
        path = f"{namespace}{own_name}"
        constant = inner.type == "lexical_declaration"
        declared = module.constants if constant else module.types
        separator = "_" if namespace and constant else ""
        name = self._file.short(node, f"{namespace.replace('.', '')}{separator}{own_name}")
        headings = [n for n, comment in enumerate(leading, 1) if is_heading(node_text(comment))]
        above = leading[headings[-1] :] if headings else leading
        statement = Statement(
            name, own_name, module, namespace, self._file.text, inner, *self._file.docs(above), trailing
        )
        if node.type == "export_statement" and any(child.type == "default" for child in node.children):
            module.exports["default"] = own_name
        if path in declared:
            self._merge(node, declared, path, statement)
            return
        self._count += 1
        if self._count > MAX_DECLARATIONS:
            self._file.fail(node, f"more than {MAX_DECLARATIONS} declarations are not supported")
        declared[path] = statement

    def _merge(self, node: Node, declared: dict[str, Statement], path: str, further: Statement) -> None:
        """Add a further declaration of an interface. Raises `SchemaError` for any other second declaration."""
        first = declared[path]
        interfaces = all(one.node.type == "interface_declaration" for one in (first, further))
        parameters = [[*map(node_text, type_parameters(one.node))] for one in (first, further)]
        generic = parameters[0] != parameters[1]
        if not interfaces or generic or (parameters[0] and self._strict):
            if further.is_constant and first.is_constant and not self._strict:
                return
            line = first.node.start_point[0] + 1
            self._file.fail(
                node, f"'{first.own_name}' is declared twice (first on line {line}); rename one of them"
            )
        declared[path] = replace(first, more=(*first.more, further))

    def _collect_global(self, module: SourceModule, body: Node) -> None:
        found = SourceModule(module.path, module.name, module)
        self.globals.append(found)
        self._collect(found, body, "")

    def _collect_namespace(self, module: SourceModule, node: Node, outer: str) -> None:
        name, *body = named_children(node)
        if name.type == "string":
            self._collect_quoted(module, node, node_text(name)[1:-1], body)
            return
        namespace = self._file.short(name, f"{outer}{node_text(name)}.")
        if namespace.count(".") > MAX_DEPTH:
            self._file.fail(name, f"namespaces are nested more than {MAX_DEPTH} deep")
        parts = namespace.split(".")
        module.namespaces |= {".".join(parts[:n]) for n in range(1, len(parts))}
        if body:
            self._collect(module, body[0], namespace)

    def _collect_quoted(self, module: SourceModule, node: Node, name: str, body: Sequence[Node]) -> None:
        """Collect a module with a name in quotes; one that a file has the name of becomes a part of that."""
        if self._sources is None:
            self._file.unsupported(node, "at the top level")
        known = self._quoted.get(name)
        if known is None:
            known = self._quoted[name] = SourceModule(module.path, pascal_case(name), module)
            path = self._sources.find(name, module.path)
            if path is not None:
                other = self._open(path)
                # A file that only declares modules has no names of its own.
                if other.types or other.exports or other.stars:
                    known = self._quoted[name] = other
        if body:
            self._collect(known, body[0], "")

    def _name(self, node: Node) -> str | None:
        """Return the name of a declaration; None for one that describes no data."""
        if node.type != "lexical_declaration":
            name = node.child_by_field_name("name")
            assert name is not None
            return self._file.short(name, node_text(name))
        declarators = named_children(node)
        name = named_children(declarators[0])[0]
        code = node.children[0].type != "const" or name.type != "identifier" or len(declarators) != 1
        if code and not self._strict:
            self.leave_out(node, "variables")
            return None
        if node.children[0].type != "const":
            self._file.unsupported(node.children[0], "as a declaration")
        if len(declarators) != 1:
            self._file.fail(
                declarators[1], "only one constant per statement is supported; write a statement for each"
            )
        if name.type != "identifier":
            self._file.unsupported(name, "as a declaration")
        return self._file.short(node, node_text(name))


def _has_no_effect(node: Node) -> bool:
    """Return whether a statement is empty, or a string, such as "use strict"."""
    directive = node.type == "expression_statement" and [c.type for c in named_children(node)] == ["string"]
    return node.type == "empty_statement" or directive
