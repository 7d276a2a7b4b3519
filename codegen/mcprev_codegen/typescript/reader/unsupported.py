"""The constructs of TypeScript that are refused, each with what to write instead; docs/typescript.md lists them."""

from __future__ import annotations

from typing import Final

PLAIN_DATA: Final = "a schema describes plain data: use interfaces, type aliases, enums and constants"
_NO_MODULE: Final = "a schema is one file: put the declarations that it imports into this file"
_NO_FUNCTION: Final = "JSON has no functions: leave it out, or write a member for the data that it returns"
_NO_CLASS: Final = "write an interface of its data"
_VALUE: Final = "write a string, number or boolean"
UNSUPPORTED: Final = {
    "import_statement": ("an import", _NO_MODULE),
    "import_alias": ("an import", _NO_MODULE),
    "member_expression": ("an import", _NO_MODULE),
    "module": ("a module with a name in quotes", "move its declarations to the top level"),
    "ambient_declaration": ("a declaration of globals", "move its declarations to the top level"),
    "export_statement": ("this form of export", "put `export` before the declarations"),
    "class_declaration": ("a class", _NO_CLASS),
    "abstract_class_declaration": ("a class", _NO_CLASS),
    "function_declaration": ("a function with a body", "leave it out"),
    "let": ("a variable", "declare a constant with `const`"),
    "variable_declaration": ("a variable", "declare a constant with `const`"),
    "object_pattern": ("destructuring", "declare each constant by its name"),
    "type_annotation": ("a type annotation", "leave it out, or write the value as its type instead of as its value"),
    "as_expression": ("a type assertion", "write the value alone, or `as const` behind it"),
    "binary_expression": ("a computed value", "write the value out"),
    "unary_expression": ("a computed value", "write the value out"),
    "identifier": ("the value of another constant", "write the value out"),
    "object": ("an object", f"{_VALUE}; types of objects are interfaces"),
    "array": ("an array", f"{_VALUE}; a type of several values is a union of literals"),
    "null": ("null", _VALUE),
    "undefined": ("undefined", "write null, or `?` behind the name of the member that may be absent"),
    "nested_type_identifier": ("this qualified name", "only the members of enums and namespaces of this file have one"),
    "mapped_type_clause": ("a mapped type", "write its members out in an interface"),
    "conditional_type": ("a conditional type", "write the type out that it stands for"),
    "function_type": ("a function type", _NO_FUNCTION),
    "constructor_type": ("a constructor type", _NO_FUNCTION),
    "method_signature": ("a method", _NO_FUNCTION),
    "call_signature": ("a call signature", _NO_FUNCTION),
    "construct_signature": ("a construct signature", _NO_FUNCTION),
    "computed_property_name": ("a computed name", "write the name out, in quotes if it is no identifier"),
    "this_type": ("the type `this`", "write the name of the interface"),
    "type_query": ("the type of an expression", "write the type out, or name a constant behind `typeof`"),
    "rest_type": ("a rest item of a tuple", "use an array of a union, or a tuple of fixed length"),
}  # fmt: skip
"""The unsupported constructs by tree-sitter's name: the common name, and the replacement."""
NOT_JSON: Final = {
    "void": "leave the member out",
    "never": "leave the member out",
    "symbol": "write string",
    "unique symbol": "write string",
    "bigint": "write number, or string with a `@pattern` for its digits",
    "Date": "write string with `@format date-time`",
    "RegExp": "write string",
    "Function": "leave the member out",
}
"""The types of TypeScript that JSON has no values of, each with its replacement."""
