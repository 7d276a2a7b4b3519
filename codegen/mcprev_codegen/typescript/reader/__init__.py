"""Parses TypeScript to IR: the part of the language that describes plain data.

Every node kind is either read as TypeScript means it, or an error with its place in the file: an unsupported construct
could change the meaning of the protocol, so none is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcprev_codegen import ir
from mcprev_codegen.typescript.reader.declarations import Declarations
from mcprev_codegen.typescript.reader.files.modules import Sources as Sources
from mcprev_codegen.typescript.reader.text.source_file import SourceFile


def parse(
    source: str, path: str, sources: Sources | None = None, *, strict: bool = True, roots: Sequence[str] = ()
) -> ir.Module:
    """Return the IR of the text of a schema.ts; `path` is used in errors, and to find what it imports in `sources`.

    `roots` are the types to read, with what they need; without them, all of the file. Unless it is read strictly, what describes
    no data, such as a function, is left out with a warning where no root needs it.

    A generic declaration becomes one declaration per use: `Page<Tool>` becomes the interface `PageTool`. The type `B`
    of a namespace `A` becomes `AB`, its constant `C` becomes `A_C`. An enum becomes the union of its values. What
    TypeScript computes from types is written out. `readonly`, `declare` and `export` do not affect messages and are
    dropped. Raises `SchemaError` for a syntax error, an unsupported construct, a duplicate name or a reference to a
    name that is not declared.
    """
    file = SourceFile(source.removeprefix("\ufeff"), path)
    return Declarations(file, sources, strict=strict, roots=roots).module()


def parse_fragment(member: str, path: str) -> ir.Field:
    """Return one member such as `name?: Type;` outside any file; names are not resolved.

    Raises `SchemaError` as `parse` does.
    """
    return Declarations(SourceFile(f"export interface Fragment {{\n{member}\n}}", path)).fragment()
