"""The types that an extension imports from the revision that its version is based on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from mcprev_codegen import ir
from mcprev_codegen.facts.revision import Revision
from mcprev_codegen.facts.vocabulary import EMPTY_RESULT
from mcprev_codegen.resolve import Schema

_NAME: Final = re.compile(r"\b[A-Z]\w+")


def with_types_of(base: Revision, schema: Schema, facts: Iterable[str]) -> Schema:
    """Return the hoisted schema of an extension with all that it imports as the revision `base` has it, its facts included.

    `facts` are values in the overlay of the extension, which may name further types of the revision.

    A declaration of the revision has a path in its span, one of the extension has none. Raises `SchemaError` for a type
    that the revision does not have under the same name.
    """
    own = [decl for decl in schema.module.decls if not decl.span.path]
    names = {decl.name for decl in own}
    for decl in own:
        for name in ir.references(decl):
            if name not in names and name not in base.schema.types:
                raise schema.fail(
                    decl,
                    f"'{decl.name}' refers to '{name}', which is another type in {base.name}; rename the type of that name in this file",
                )
    used = {name for decl in own for name in ir.references(decl)} - names
    used |= {name for fact in facts for name in _NAME.findall(fact) if name in base.schema.types}
    if used and EMPTY_RESULT in base.schema.types:  # that of a request without a result of its own
        used.add(EMPTY_RESULT)
    reached = ir.reachable(used, lambda name: base.schema.references[name])
    if both := sorted(reached & names):
        raise schema.fail(
            both[0],
            f"'{both[0]}' is also the name of a type of {base.name} that this file imports; rename it",
        )
    imported = [*_imported(base, reached, names)]
    module = ir.Module(
        (*imported, *own),
        schema.module.warnings,
        {**schema.module.texts, base.schema.path: base.schema.lines},
    )
    return replace(schema, module=module)


def _imported(base: Revision, reached: set[str], own: set[str]) -> Iterator[ir.Decl]:
    """Yield the types of the revision that are reached, and its constants, each with the path of its file."""
    for decl in base.schema.module.decls:
        wanted = decl.name not in own if isinstance(decl, ir.Const) else decl.name in reached
        if wanted:
            yield replace(decl, span=replace(decl.span, path=base.schema.path))
