"""JSON Schema of Python types, as pydantic describes them (TOOL-2, TOOL-4).

The schema of what a type accepts is that of pydantic. The schema of what its values become says only what all of them
keep, because clients refuse a result that does not match it: a `datetime` without a time zone is no `date-time`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import SchemaError
from typing_extensions import override

from mcprev.json_schema.bounds import LIST, OBJECT
from mcprev.wire.schema_keywords import subschemas

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue, JsonSchemaWarningKind
    from pydantic_core import core_schema

Schema: TypeAlias = dict[str, Any]
NO_SCHEMA: Final = (PydanticUserError, SchemaError, NameError, TypeError)
"""The exceptions that pydantic raises for types without a schema."""
_IN_OTHER_FORM: Final = frozenset({"base64", "base64url", "binary", "multi-host-uri", "password", "uri"})
"""The formats of pydantic for values that are sent as another text than the one whose length was checked."""
_NOT_KEPT: Final = frozenset(
    {
        *("time", "duration", "ipv6", "email", "regex"),
        *("directory-path", "file-path", "ipv4interface", "ipv4network", "ipv6interface", "ipv6network"),
        *("ipvanyaddress", "ipvanyinterface", "ipvanynetwork", "json-string", "name-email", "path"),
    }
)
"""The formats of pydantic that some values do not have, as JSON Schema defines them, and those that it does not define."""
_STAY_APART: Final = frozenset({"int", "str", "uuid", "date", "enum", "literal"})
"""The core schemas whose different values are different in JSON, too."""
_PORTABLE: Final = re.compile(
    r"""(?: [^\\.\[\](){}*+?|/] | \\[][\\^$.*+?(){}|/] | \(\?: | \((?!\?) | [)|]
      | \[\^?(?: [^][\\&~^-] | \\[][\\^$.*+?(){}|/-] | [A-Za-z0-9]-[A-Za-z0-9] | -(?=\]) )+\]
      | (?: [*+?] | \{[0-9]+(?:,[0-9]*)?\} )\?? )*""",
    re.VERBOSE,
)
"""Regular expressions that mean the same in Python, in pydantic and in JavaScript: without classes such as `\\d`, whose
members differ, and without the dot."""


def schema_from(adapter: TypeAdapter[Any], mode: JsonSchemaMode, *, of_form: bool = False) -> Schema:
    """Return the schema of a type, without titles that only repeat names of the code.

    In one `of_form`, where a user types each value, a decimal number is a number.
    """
    generator = _FormGenerator if of_form else _Generator
    schema = adapter.json_schema(mode=mode, schema_generator=generator)
    if mode == "serialization":
        schema = _kept(schema)
    definitions = schema.get("$defs", {})
    for each in (schema, *definitions.values()):
        each.pop("title", None)
    if "$ref" in schema:
        # A recursive type is a reference; older peers expect `type` at the root.
        root = definitions[schema["$ref"].rpartition("/")[2]]
        if "type" in root:
            schema = {"type": root["type"], **schema}
    return schema


def adapter_of(hint: object) -> TypeAdapter[Any]:
    """Return the pydantic adapter of a type. Raises one of `NO_SCHEMA` if there is none."""
    return TypeAdapter(cast("Any", hint))


class _Generator(GenerateJsonSchema):
    """Omits keywords outside of JSON Schema, and titles that repeat member names."""

    @override
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    @override
    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Ignore defaults without a JSON form."""

    @override
    def tagged_union_schema(self, schema: core_schema.TaggedUnionSchema) -> JsonSchemaValue:
        found = super().tagged_union_schema(schema)
        found.pop("discriminator", None)
        return found

    # -- what values become ------------------------------------------------------------------------------

    @override
    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> JsonSchemaValue:
        found = super().datetime_schema(schema)
        aware = schema.get("tz_constraint", "naive") != "naive"
        return found if aware or self.mode == "validation" else _without(found, "format")

    @override
    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        found = super().str_schema(schema)
        pattern = schema.get("pattern", "")
        if self.mode == "validation" or (isinstance(pattern, str) and _PORTABLE.fullmatch(pattern)):
            return found
        return _without(found, "pattern")

    @override
    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        found = super().float_schema(schema)  # 0.3 is no multiple of 0.1 for clients that divide
        return found if self.mode == "validation" else _without(found, "multipleOf")

    @override
    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return self._as_set(super().set_schema(schema), schema)

    @override
    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return self._as_set(super().frozenset_schema(schema), schema)

    def _as_set(
        self, found: JsonSchemaValue, schema: core_schema.SetSchema | core_schema.FrozenSetSchema
    ) -> JsonSchemaValue:
        """Return the schema of a set, whose items may become the same value, such as two secrets."""
        items: Any = schema.get("items_schema", {})
        apart = items.get("type") in _STAY_APART and "serialization" not in items
        return found if apart or self.mode == "validation" else _without(found, "uniqueItems")

    @override
    def ser_schema(self, schema: Any) -> JsonSchemaValue | None:
        found = super().ser_schema(schema)
        if found is not None or schema["type"] not in {"function-plain", "function-wrap"}:
            return found
        own = str(getattr(schema["function"], "__module__", None)).partition(".")[0] == "pydantic"
        return None if own else {}  # the return type of a user's serializer is not known


class _FormGenerator(_Generator):
    @override
    def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
        return Schema(super().decimal_schema(schema)["anyOf"][0])


def _kept(schema: Any) -> Any:  # noqa: ANN401 - a schema, or a boolean
    """Return the schema of what values become, without what some of them do not keep."""
    if not isinstance(schema, OBJECT):
        return schema
    found = cast("Schema", schema)
    for path, inner in subschemas(found):
        holder: Any = found
        for part in path[:-1]:
            holder = holder[part]
        holder[int(path[-1]) if isinstance(holder, LIST) else path[-1]] = _kept(inner)
    format_ = found.get("format")
    if format_ in _IN_OTHER_FORM:
        return _without(found, "format", "minLength", "maxLength", "writeOnly")
    if isinstance(format_, str) and re.fullmatch("uuid[0-9]", format_):
        return {**found, "format": "uuid"}
    return _without(found, "format") if format_ in _NOT_KEPT else found


def _without(schema: Mapping[str, Any], *keywords: str) -> Schema:
    return {keyword: value for keyword, value in schema.items() if keyword not in keywords}


def first_sentence(error: BaseException) -> str:
    """Return the first sentence of a pydantic error."""
    if isinstance(error, SchemaError):
        # This error ends with its reason.
        return " ".join(str(error).rpartition("SchemaError: ")[2].split())
    return str(error).partition("\n")[0].partition(". ")[0]
