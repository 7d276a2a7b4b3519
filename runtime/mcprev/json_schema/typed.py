"""JSON Schema of Python types, as pydantic describes them (TOOL-2, TOOL-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import SchemaError
from typing_extensions import override

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaValue, JsonSchemaWarningKind
    from pydantic_core import core_schema

Schema: TypeAlias = dict[str, Any]
NO_SCHEMA: Final = (PydanticUserError, SchemaError, NameError, TypeError)
"""The exceptions that pydantic raises for types without a schema."""


def schema_from(adapter: TypeAdapter[Any], mode: JsonSchemaMode) -> Schema:
    """Return the schema of a type, without titles that only repeat names of the code."""
    schema = adapter.json_schema(mode=mode, schema_generator=_Generator)
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


def first_sentence(error: BaseException) -> str:
    """Return the first sentence of a pydantic error."""
    if isinstance(error, SchemaError):
        # This error ends with its reason.
        return " ".join(str(error).rpartition("SchemaError: ")[2].split())
    return str(error).partition("\n")[0].partition(". ")[0]
