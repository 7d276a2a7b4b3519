"""The JSON document of `mcprev show REV --json`: one revision in a stable format, written into its package.

It lists the types that the schema declares, with inherited members, wire names, and member types as TypeScript.
Methods refer to types as the generated package names them; of a file that is not pinned, `classes` has the names in Python that
differ from those of the schema. `META_FORMAT` is the version of the format, and
`generator` that of the generator: it stands in no other file of the package.
"""

from __future__ import annotations

from typing import Final

from mcprev_codegen.emit.provenance import GENERATOR_VERSION
from mcprev_codegen.facts import Method, Revision
from mcprev_codegen.ir import Json
from mcprev_codegen.python import module_name
from mcprev_codegen.typescript import print_inline

META_FORMAT: Final = 1
_METHOD: Final = (
    "method", "kind", "type", "directions", "transport", "params", "params_optional", "result", "alternate_results",
    "capability",
)  # fmt: skip
"""The members of a method that the document states."""


def meta_document(revision: Revision) -> dict[str, Json]:
    """Return the document of a revision."""
    names = {} if revision.pin else {n: revision.names.class_name(n) for n in revision.schema.types}
    classes: dict[str, Json] = {name: found for name, found in names.items() if found != name}
    return {
        "format": META_FORMAT,
        "generator": GENERATOR_VERSION,
        "revision": revision.name,
        **({"extension": revision.extension.id} if revision.extension else {}),
        "package": module_name(revision.name),
        "protocol_version": revision.protocol_version,
        "constants": {const.name: const.value for const in revision.own_consts()},
        **({"classes": classes} if classes else {}),
        "methods": [_method(method) for method in revision.methods.values()],
        "types": [
            _type(revision, name) for name, decl in revision.declared.types.items() if revision.is_own(decl)
        ],
    }


def _method(method: Method) -> Json:
    stated: dict[str, Json] = {name: getattr(method, name) for name in _METHOD}
    stated["directions"] = [side.direction for side in method.senders]
    stated["alternate_results"] = [*method.alternate_results]
    return stated


def _type(revision: Revision, name: str) -> Json:
    schema = revision.declared
    fields: list[Json] = [
        {"name": f.name, "type": print_inline(f.field.type), "optional": f.field.optional}
        for f in schema.fields(name)
    ]
    senders = revision.senders[name]
    sent_by = "both" if len(senders) > 1 else next(iter(senders), "none")
    return {"name": name, "kind": schema.alias_kind(name), "fields": fields, "sent_by": sent_by}
