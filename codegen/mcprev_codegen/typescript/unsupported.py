"""The constructs of TypeScript that are refused, each with what to write instead."""

from __future__ import annotations

from typing import Final

_SPELL_OUT: Final = "write its members out in an interface"
PLAIN_DATA: Final = "a schema describes plain data: use interfaces, type aliases, enums and constants"
UNSUPPORTED: Final = {
    "import_statement": (
        "an import",
        "a schema is one file: put the declarations that it imports into this file",
    ),
    "internal_module": ("a namespace", "move its declarations to the top level"),
    "nested_type_identifier": ("a qualified name", "only members of an enum have one: `Enum.Member`"),
    "mapped_type_clause": ("a mapped type", f"{_SPELL_OUT}, or use Record<Keys, T>"),
    "conditional_type": ("a conditional type", "write the type out that it stands for"),
    "infer_type": ("an infer type", "write the type out that it stands for"),
    "index_type_query": ("a keyof type", "write the names out as a union of literals"),
    "lookup_type": ("an indexed access type", "declare the member's type as an alias and name that"),
    "function_type": ("a function type", PLAIN_DATA),
    "method_signature": ("a method signature", PLAIN_DATA),
    "call_signature": ("a call signature", PLAIN_DATA),
    "construct_signature": ("a construct signature", PLAIN_DATA),
    "class_declaration": ("a class", PLAIN_DATA),
    "function_declaration": ("a function", PLAIN_DATA),
    "ambient_declaration": ("an ambient declaration", "take the `declare` out"),
    "export_statement": ("this form of export", "put `export` before the declarations"),
    "rest_type": ("a rest item of a tuple", "use an array of a union, or a tuple of fixed length"),
    "optional_type": ("an optional item of a tuple", "write a union of tuples"),
    "optional_parameter": ("an optional item of a tuple", "write a union of tuples"),
    "binary_expression": ("a computed constant", "write the value out"),
}
"""The unsupported constructs by tree-sitter's name: the common name, and the replacement."""
