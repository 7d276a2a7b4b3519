"""Bodies of requests as forms: `application/x-www-form-urlencoded` and `multipart/form-data`."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from mcprev.app.openapi.document import Document, array_at, below, object_at
from mcprev.app.openapi.parameters import SEPARATORS, ApiArgument, defined
from mcprev.errors import Json, MissingExtra, ToolError
from mcprev.json_schema.bounds import LIST, OBJECT

try:
    import aiohttp
except ImportError as _error:
    raise MissingExtra("calling the API of an OpenAPI document", "aiohttp", "http") from _error

URL_ENCODED: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
_FILE: Final = "Base64 of the bytes of the file."


@dataclass(frozen=True, slots=True)
class FormField:
    """How a member of a form is written."""

    style: str = ""
    """The style of a parameter of a query; without one, an item of a list is a field, and an object is JSON."""
    explode: bool = True
    media_type: str | None = None
    is_file: bool = False
    """Whether the value is the bytes of a file, which the model writes in base64."""


@dataclass(frozen=True, slots=True)
class FormBody:
    """A body that is a form."""

    media_type: str
    fields: Mapping[str, FormField]

    async def encoded(self, members: Json) -> tuple[bytes, str]:
        """Return the body and its `Content-Type`; members that are null are left out. Raises `ToolError`."""
        if not isinstance(members, OBJECT):
            raise ToolError("the body is a form; pass an object")
        form = aiohttp.FormData(default_to_multipart=self.media_type == MULTIPART)
        for name, value in members.items():
            field = self.fields.get(name, FormField())
            for key, item in _written(name, field, value):
                if field.is_file:
                    kind = field.media_type or "application/octet-stream"
                    form.add_field(key, _bytes(name, item), filename=name, content_type=kind)
                else:
                    text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
                    said = field.media_type or ("application/json" if isinstance(item, OBJECT) else None)
                    form.add_field(key, text, content_type=said if self.media_type == MULTIPART else None)
        payload = form()
        return await payload.as_bytes(), payload.headers["Content-Type"]


def _written(name: str, field: FormField, value: Json) -> Iterator[tuple[str, Json]]:
    """Yield the names and values of the fields of a member."""
    value = defined(value)
    if value is None:
        return
    if field.style:
        for key, text in ApiArgument(
            name, "query", {}, required=False, style=field.style, explode=field.explode
        ).pairs(value):
            yield unquote(key), unquote(text)
    elif isinstance(value, LIST):
        yield from ((name, item) for item in value)
    else:
        yield name, value


def _bytes(name: str, value: Json) -> bytes:
    try:
        return b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        raise ToolError(f"'{name}' is not base64; pass the bytes of the file in base64") from None


def described_form(document: Document, media_type: str, media: Mapping[str, Json], at: str) -> FormBody:
    """Return how a body is written that a document describes. Raises `ValueError`."""
    schema = _target(document, media.get("schema", {}), below(at, "schema"))
    encodings = object_at(media.get("encoding", {}), below(at, "encoding"))
    members = object_at(schema.get("properties", {}), below(at, "schema", "properties"))
    fields = dict[str, FormField]()
    for name in dict.fromkeys([*members, *encodings]):
        said = object_at(encodings.get(name, {}), below(at, "encoding", name))
        style = str(said.get("style", "form")) if {"style", "explode"} & said.keys() else ""
        kinds = [kind.strip() for kind in str(said.get("contentType", "")).split(",")]
        plain = next((kind for kind in kinds if kind and "*" not in kind), None)
        file = media_type == MULTIPART and _is_file(
            document, members.get(name, {}), below(at, "schema", "properties", name)
        )
        exploded = said.get("explode", style == "form") is True
        if ("query", style) in SEPARATORS or not style:
            fields[name] = FormField("" if style == "form" and exploded else style, exploded, plain, file)
    return FormBody(media_type, fields)


def _target(document: Document, node: Json, at: str) -> dict[str, Json]:
    return document.resolve(node, at)[0] if isinstance(node, OBJECT) else {}


def _is_file(document: Document, node: Json, at: str, depth: int = 0) -> bool:
    """Return whether a schema is that of the bytes of a file, or of a list of files."""
    schema = _target(document, node, at)
    if depth > 8:  # no file is said so deep
        return False
    if says_file(schema):
        return True
    inner = [
        schema.get("items"),
        *(one for key in ("anyOf", "oneOf", "allOf") for one in array_at(schema.get(key, []), at)),
    ]
    return any(_is_file(document, each, at, depth + 1) for each in inner if isinstance(each, OBJECT))


def says_file(schema: Mapping[str, Json]) -> bool:
    """Return whether a schema says that its value is bytes."""
    kind = str(schema.get("contentMediaType", ""))
    binary = kind != "" and not kind.startswith("text/") and not kind.endswith("json")
    types = schema.get("type")
    text = types == "string" or (isinstance(types, list) and "string" in types)
    return text and (schema.get("format") == "binary" or (binary and "contentEncoding" not in schema))


def with_files_as_text(schema: Json) -> Json:
    """Return a schema in which the bytes of files are text in base64."""
    if isinstance(schema, LIST):
        return [with_files_as_text(each) for each in schema]
    if not isinstance(schema, OBJECT):
        return schema
    found: dict[str, Json] = {key: with_files_as_text(value) for key, value in schema.items()}
    if says_file(schema):
        limits = ("format", "minLength", "maxLength", "pattern")
        found = {key: value for key, value in found.items() if key not in limits}
        told = f"{found['description']} " if isinstance(found.get("description"), str) else ""
        found |= {"contentEncoding": "base64", "description": told + _FILE}
    return found
