"""OpenAPI documents, their references, and their schemas as JSON Schema.

References resolve within the document, and nothing is fetched. Errors name the place in the document.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import unquote

from mcprev.errors import Json, one_line
from mcprev.json_schema.bounds import LIST, OBJECT, pattern
from mcprev.wire.schema_keywords import BY_NAME, IN_LIST, IN_MEMBER

MAX_PLACE: Final = 200
"""The maximum number of characters of a place in an error."""
MAX_OBJECTS: Final = 2_000
"""The maximum number of subschemas of one tool."""
_DROPPED: Final = frozenset(
    {"discriminator", "xml", "externalDocs", "example", "nullable", "$defs", "definitions"}
)


def refuse(at: str, why: str) -> NoReturn:
    """Raise `ValueError` for a place in the document, in one printable line."""
    raise ValueError(one_line(f"{at[:MAX_PLACE]}: {why}"))


def object_at(value: Json, at: str) -> dict[str, Json]:
    """Return an object. Raises `ValueError` for any other value."""
    found: dict[str, Json] = (
        value if isinstance(value, OBJECT) else refuse(at, "is not an object; write one here")
    )
    return found


def array_at(value: Json, at: str) -> list[Json]:
    """Return an array. Raises `ValueError` for any other value."""
    found: list[Json] = value if isinstance(value, LIST) else refuse(at, "is not an array; write one here")
    return found


def text_at(value: Json, at: str) -> str:
    """Return a string. Raises `ValueError` for any other value."""
    return value if isinstance(value, str) else refuse(at, "is not a string; write one here")


def below(at: str, *names: object) -> str:
    """Return the JSON pointer of a place below another."""
    return "/".join((at, *(str(name).replace("~", "~0").replace("/", "~1") for name in names)))


# -- the document ----------------------------------------------------------------------------------------


def load_document(document: Mapping[str, Json] | str | Path) -> dict[str, Json]:
    """Return a document as JSON values. Raises `ValueError` for one that cannot be read, and `OSError`."""
    content: Any = document
    if not isinstance(document, Mapping):
        path = Path(document)
        text = path.read_text(encoding="utf-8")
        try:
            content = _yaml(text) if path.suffix in {".yaml", ".yml"} else json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path.name} cannot be read: {error}") from error
    try:
        # Keys become strings, such as the status codes of YAML.
        found = json.loads(json.dumps(content, default=str, allow_nan=False))
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(
            f"the document is not JSON: {error}; use only objects, arrays, strings, numbers, booleans and null"
        ) from error
    root = object_at(found, "#")
    if not str(root.get("openapi")).startswith(("3.0", "3.1")):
        refuse("#/openapi", f"is {root.get('openapi')!r:.50}; convert the document to OpenAPI 3.0 or 3.1")
    return root


def _yaml(text: str) -> Json:
    try:
        yaml: Any = import_module("yaml")
    except ImportError:
        raise ValueError("YAML requires PyYAML; install pyyaml, or pass the document as JSON") from None
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text)):
            raise ValueError("it has YAML aliases, which are not followed; use $ref instead")
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


@dataclass(slots=True)
class Document:
    """A document and its references."""

    root: dict[str, Json]

    def target(self, ref: Json, at: str) -> Json:
        """Return what a reference points to. Raises `ValueError` for one that leaves the document or leads nowhere."""
        if ref != "#" and not text_at(ref, at).startswith("#/"):
            refuse(
                at, f"refers to '{ref:.200}' outside of the document; put it in and refer to it as '#/...'"
            )
        node: Json = self.root
        for part in ref.split("/")[1:]:
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, LIST) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            elif isinstance(node, OBJECT) and name in node:
                node = node[name]
            else:
                refuse(at, f"refers to '{ref:.200}', which does not exist; add it or correct the reference")
        return node

    def resolve(self, node: Json, at: str) -> tuple[dict[str, Json], str]:
        """Return an object and its place, after all references."""
        for _ in range(32):
            node = object_at(node, at)
            if "$ref" not in node:
                return node, at
            node, at = self.target(node["$ref"], below(at, "$ref")), str(node["$ref"])
        refuse(at, "refers to itself; break the cycle")


@dataclass(slots=True)
class Schemas:
    """Converts the schemas of one direction of one tool; what they refer to becomes `$defs`."""

    document: Document
    hidden: str
    """The keyword of members that do not exist in this direction: `readOnly` or `writeOnly`."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    defs: dict[str, Json] = field(default_factory=dict[str, Json])
    numbers: Counter[str] = field(default_factory=Counter[str])
    count: int = 0

    def finish(self, schema: dict[str, Json]) -> dict[str, Json]:
        """Return a schema with the definitions that it needs."""
        return {**schema, "$defs": self.defs} if self.defs else schema

    def convert(self, node: Json, at: str) -> dict[str, Json]:
        """Return a schema of OpenAPI as JSON Schema."""
        self.count += 1
        if self.count > MAX_OBJECTS:
            refuse(at, f"the operation has more than {MAX_OBJECTS} schemas; leave it out with `select`")
        if isinstance(node, bool):
            return {} if node else {"not": {}}
        node = object_at(node, at)
        if node.keys() & {"$id", "$dynamicRef", "$anchor"}:
            refuse(at, "has $id, $anchor or $dynamicRef; refer to schemas as '#/components/schemas/...'")
        found: dict[str, Json] = {}
        for keyword, value in node.items():
            place = below(at, keyword)
            if keyword == "$ref":
                found[keyword] = f"#/$defs/{self._defined(value, place)}"
            elif keyword in _DROPPED or keyword.startswith("x-"):
                continue
            elif keyword in BY_NAME and keyword != "dependencies":  # which OpenAPI does not have
                members = object_at(value, place).items()
                found[keyword] = {
                    name: self.convert(item, below(place, name))
                    for name, item in members
                    if not (isinstance(item, OBJECT) and item.get(self.hidden) is True)
                }
            elif keyword in IN_MEMBER:
                found[keyword] = value if isinstance(value, bool) else self.convert(value, place)
            elif keyword in IN_LIST:
                items = enumerate(array_at(value, place))
                found[keyword] = [self.convert(item, below(place, index)) for index, item in items]
            else:
                found[keyword] = value
        gone = node.get("properties", {}).keys() - found.get("properties", {}).keys()
        if isinstance(node.get("required"), LIST):
            place = below(at, "required")
            names = [text_at(name, below(place, index)) for index, name in enumerate(node["required"])]
            found["required"] = [name for name in names if name not in gone]
        return _as_3_1(found, node)

    def _defined(self, ref: Json, at: str) -> str:
        target = self.document.target(ref, at)
        if ref not in self.names:
            base = name = re.sub(r"[^\w.-]", "_", unquote(ref.rpartition("/")[2]), flags=re.ASCII) or "root"
            while name in self.defs:
                self.numbers[base] += 1  # no number is tried twice
                name = f"{base}_{self.numbers[base]}"
            self.names[ref] = name
            self.defs[name] = {}
            self.defs[name] = self.convert(target, ref)
        return self.names[ref]


def checkable(schema: Json) -> Json:
    """Return a schema whose check takes a time that grows with the value, for those of a document that others wrote.

    It has no `pattern` that needs backtracking, and no `patternProperties`; the API checks these itself.
    """
    if not isinstance(schema, OBJECT):
        return schema
    found: dict[str, Json] = {}
    for keyword, value in schema.items():
        if keyword in BY_NAME and isinstance(value, OBJECT):
            if keyword != "patternProperties":
                found[keyword] = {name: checkable(item) for name, item in value.items()}
        elif keyword in IN_LIST and isinstance(value, LIST):
            found[keyword] = [checkable(item) for item in value]
        elif keyword in IN_MEMBER:
            found[keyword] = checkable(value)
        elif keyword != "pattern" or _is_linear(value):
            found[keyword] = value
    if "patternProperties" in schema:
        for keyword in ("additionalProperties", "unevaluatedProperties"):
            found.pop(keyword, None)  # which are about the other names
    return found


def _is_linear(expression: Json) -> bool:
    """Return whether an expression takes linear time; what is no expression is refused where the schema is compiled."""
    if not isinstance(expression, str):
        return True
    with suppress(ValueError):
        pattern(expression)
        return True
    try:
        re.compile(expression)
    except re.error:
        return True
    return False


def _as_3_1(found: dict[str, Json], node: Mapping[str, Json]) -> dict[str, Json]:
    """Return a schema with the keywords of 3.0 replaced by those of JSON Schema."""
    for keyword, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(found.get(keyword), bool):
            exclusive = found.pop(keyword)
            if exclusive and limit in found:
                found[keyword] = found.pop(limit)
    if node.get("nullable") is True and isinstance(found.get("type"), str):
        found["type"] = [found["type"], "null"]
        if isinstance(found.get("enum"), list) and None not in found["enum"]:
            found["enum"] = [*found["enum"], None]
    return found
