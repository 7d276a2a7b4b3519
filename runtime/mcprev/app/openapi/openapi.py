"""Tools that are the operations of an OpenAPI document, versions 3.0 and 3.1, and call its HTTP API.

The document is read once, before anything is served; what it cannot say as a tool is a `ValueError` with its place in
the document.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from mcprev.app.arguments import ArgumentError, reread_by_schema
from mcprev.app.entries import Entry, RegisteredTool
from mcprev.app.openapi.calls import JSON_TYPE, TOKEN, Backend, HttpSession, Operation
from mcprev.app.openapi.document import (
    Document,
    Schemas,
    array_at,
    below,
    checkable,
    load_document,
    object_at,
    refuse,
    text_at,
)
from mcprev.app.openapi.forms import MULTIPART, URL_ENCODED, FormBody, described_form, with_files_as_text
from mcprev.app.openapi.parameters import SEPARATORS, ApiArgument, plain_name
from mcprev.app.openapi.routes import OpenApiRoute, is_readable, resource_of
from mcprev.app.openapi.secrets import credentials
from mcprev.app.results import ToolReturns
from mcprev.app.signatures import Function
from mcprev.callbacks import at_once, decision
from mcprev.errors import Json, SchemaError
from mcprev.json_schema.bounds import OBJECT, Validator
from mcprev.json_schema.validation import compile_schema
from mcprev.protocol.tool_names import MAX_TOOL_NAME
from mcprev_types.latest import models

_ANNOTATIONS: Final[Mapping[str, models.ToolAnnotations | None]] = {
    "get": models.ToolAnnotations(read_only_hint=True),
    "head": models.ToolAnnotations(read_only_hint=True),
    "put": models.ToolAnnotations(idempotent_hint=True),
    "delete": models.ToolAnnotations(destructive_hint=True),
    **dict.fromkeys(("post", "patch", "options", "trace")),
}
"""The methods of operations, and what they say of a tool."""
_logger: Final = logging.getLogger("mcprev.server")
_MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9.+-]{1,127}/[A-Za-z0-9.+-]{1,127}")
_PATH: Final = re.compile(r"/[^\x00-\x20\x7f-\U0010ffff?#\\]*")
_NOT_ARGUMENTS: Final = frozenset(
    {
        *(
            "accept",
            "authorization",
            "connection",
            "content-length",
            "content-type",
            "cookie",
            "expect",
            "host",
        ),
        *(
            "keep-alive",
            "proxy-authorization",
            "proxy-connection",
            "te",
            "trailer",
            "transfer-encoding",
            "upgrade",
        ),
    }
)
"""Headers that are no parameters by the specification, belong to the connection, or hold the cookies."""
_COMBINED: Final = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "dependentSchemas", "minProperties", "maxProperties",
     "dependentRequired", "unevaluatedProperties", "propertyNames"}
)  # fmt: skip
"""Keywords about an object as a whole; with one of them a body stays one argument."""
Select: TypeAlias = Callable[[str, str, Mapping[str, Json]], bool]


class _Called(Function):
    """Calls an operation with arguments that its schema allows."""

    def __init__(
        self, operation: Operation, check: Validator, needed: Collection[str], *, lenient: bool
    ) -> None:
        """`needed` are the names of the required arguments; `lenient` converts texts to the types of the schema."""
        super().__init__(operation)
        self._check, self._needed, self._lenient = check, frozenset(needed), lenient

    def read(self, given: Mapping[str, Json]) -> dict[str, Any]:
        """Validate JSON arguments. Raises `ArgumentError`."""
        found = self._check({**given})
        if found:
            # Models send null for what they leave out.
            given = self._without_nulls(given)
            if self._lenient:
                given, texts = reread_by_schema(lambda value: self._check(self._without_nulls(value)), given)
                given = self._without_nulls(given)
                if texts:
                    names = ", ".join(sorted(".".join(map(str, place)) for place in texts))
                    _logger.debug("%s(): converted %s to the types of the schema", self.title, names)
            if self._check({**given}):
                raise ArgumentError(found)
        return super().read({"arguments": {**given}})

    def _without_nulls(self, given: Mapping[str, Json]) -> dict[str, Json]:
        return {name: value for name, value in given.items() if value is not None or name in self._needed}


class Api:
    """The operations of a document, and how its HTTP API is called."""

    def __init__(
        self,
        document: Mapping[str, Json] | str | Path,
        base_url: str | None = None,
        session: HttpSession | None = None,
        headers: Mapping[str, str] | None = None,
        select: Select | None = None,
        routes: Sequence[OpenApiRoute] = (),
        *,
        output_schemas: bool = True,
        strict_arguments: bool = False,
    ) -> None:
        """Read the document. Raises `ValueError`."""
        self._routes, self._output_schemas = routes, output_schemas
        self._lenient = not strict_arguments
        self.document: Document = Document(load_document(document))
        self._select = select
        self._based = base_url is not None
        url = self._server() if base_url is None else base_url.rstrip("/")
        self._backend = Backend(url, session, dict(headers or {}))
        if base_url is None and (session is not None or any(credentials(headers or {}))):
            refuse(
                "#/servers",
                f"names {url:.200}, to which all requests would be sent; if you trust it, pass it as `base_url`",
            )

    def info(self, member: str) -> str:
        """Return the title or version of the API."""
        at = below("#/info", member)
        return text_at(object_at(self.document.root.get("info"), "#/info").get(member), at)

    def _server(self) -> str:
        servers = array_at(self.document.root.get("servers", []), "#/servers") or [{"url": ""}]
        server = object_at(servers[0], "#/servers/0")
        url = text_at(server.get("url"), "#/servers/0/url")
        for name, variable in object_at(server.get("variables", {}), "#/servers/0/variables").items():
            at = below("#/servers/0/variables", name)
            url = url.replace(
                f"{{{name}}}", text_at(object_at(variable, at).get("default"), below(at, "default"))
            )
        if "@" in url.partition("://")[2].partition("/")[0]:
            refuse("#/servers/0/url", "has a user or password; pass the URL as `base_url`")
        return url.rstrip("/")

    # -- reading -----------------------------------------------------------------------------------------

    def entries(self) -> Iterator[tuple[str, str, Entry]]:
        """Yield the kind, the name or URI, and the entry of each selected operation.

        An operation that cannot be a tool is left out, and the log says why. Raises `ValueError` if all are.
        """
        left_out: list[ValueError] = []
        found = list(self._operations(left_out))
        ids = Counter(str(operation.get("operationId")) for _, _, operation, _, _ in found)
        used, usable = set[str](), False
        numbers: Counter[str] = Counter()
        for method, path, operation, item, at in found:
            if self._select is not None and not decision(
                at_once(self._select(method.upper(), path, operation), "`select`"), "`select`"
            ):
                continue
            given = operation.get("operationId")
            base = given if isinstance(given, str) and given and ids[given] == 1 else f"{method}{path}"
            base = name = re.sub(r"[^A-Za-z0-9_.-]+", "_", base).strip("_")[:MAX_TOOL_NAME] or method
            short = base[: MAX_TOOL_NAME - 8]
            while name in used:
                numbers[short] += 1  # no number is tried twice
                name = f"{short}_{numbers[short] + 1}"
            used.add(name)
            try:
                found_entry = self._entry_of(name, method, path, operation, item, at)
            except ValueError as error:
                left_out.append(error)
                continue
            usable = True
            if found_entry is not None:
                yield found_entry
        if left_out and not usable:
            raise left_out[0]
        for why in left_out:
            _logger.warning("an operation is left out: %s", why)
        if not used:
            refuse("#/paths", "has no operation that `select` accepts; add one, or change `select`")

    def _operations(
        self, left_out: list[ValueError]
    ) -> Iterator[tuple[str, str, dict[str, Json], dict[str, Json], str]]:
        """Yield the operations, and add the errors of those that cannot be read to `left_out`."""
        for path, node in object_at(self.document.root.get("paths", {}), "#/paths").items():
            if path.startswith("x-"):
                continue
            try:
                if not _PATH.fullmatch(path):
                    refuse(
                        below("#/paths", path),
                        "is not the path of a URL; begin it with '/' and percent-encode it",
                    )
                item, at = self.document.resolve(node, below("#/paths", path))
            except ValueError as error:
                left_out.append(error)
                continue
            for method in (each for each in _ANNOTATIONS if each in item):
                try:
                    operation = object_at(item[method], below(at, method))
                except ValueError as error:
                    left_out.append(error)
                else:
                    yield method, path, operation, item, below(at, method)

    def _entry_of(
        self, name: str, method: str, path: str, operation: dict[str, Json], item: dict[str, Json], at: str
    ) -> tuple[str, str, Entry] | None:
        try:
            return self._entry(name, method, path, operation, item, at)
        except RecursionError:
            refuse(at, "nests too deeply; leave it out with `select`")

    def _entry(
        self, name: str, method: str, path: str, operation: dict[str, Json], item: dict[str, Json], at: str
    ) -> tuple[str, str, Entry] | None:
        tags = frozenset(tag for tag in array_at(operation.get("tags", []), at) if isinstance(tag, str))
        if (
            self._route(method, path, tags, readable=False)
            == "exclude"
            == self._route(method, path, tags, readable=True)
        ):
            return None  # and may be one that cannot be used
        if not self._based and ("servers" in operation or "servers" in item):
            refuse(at, "has servers of its own; pass `base_url`, or leave the operation out with `select`")
        schemas = Schemas(self.document, "readOnly")
        found, body, form = self._parameters(schemas, path, operation, item, at), False, None
        if "requestBody" in operation:
            arguments, body, form = self._body(schemas, operation["requestBody"], below(at, "requestBody"))
            found += arguments
        counts = Counter(argument.name for argument in found)
        named: dict[str, ApiArgument] = {}
        for argument in found:
            key = argument.name
            while counts[argument.name] > 1 and (key == argument.name or key in counts or key in named):
                key += f"_{'body' if argument.place == 'member' else argument.place}"
            named[key] = argument
        schema: dict[str, Json] = {
            "type": "object",
            "properties": {key: argument.schema for key, argument in named.items()},
            "required": [key for key, argument in named.items() if argument.required],
            "additionalProperties": False,
        }
        if not schema["required"]:
            del schema["required"]
        schema = schemas.finish(schema)
        named = {key: self._with_members(argument, schemas) for key, argument in named.items()}
        if sum(argument.more for argument in named.values()) > 1:  # whose members would meet
            named = {key: replace(argument, more=False) for key, argument in named.items()}
        called = Operation(self._backend, method, path, named, body=body, form=form, keys=self._keys())
        check = _compiled(checkable(schema), at)
        to = self._route(method, path, tags, readable=is_readable(method, named))
        if to == "exclude":
            return None
        output = None
        if to == "tool" and method != "head" and self._output_schemas:
            output, called.answer = self._checked_output(operation, at)
        texts = [operation.get(member) for member in ("summary", "description")]
        listed = models.Tool(
            name=name,
            description="\n\n".join(dict.fromkeys(text for text in texts if isinstance(text, str) and text))
            or None,
            input_schema=models.ToolInputSchema.from_wire(schema),
            output_schema=None if output is None else models.ToolOutputSchema.from_wire(output),
            annotations=_ANNOTATIONS[method],
        )
        required = [key for key, argument in named.items() if argument.required]
        function = _Called(called, check, required, lenient=self._lenient)
        returns = ToolReturns(name, function, output)
        tool = RegisteredTool(listed=listed, function=function, returns=returns, tags=tags)
        if to == "tool":
            return "tools", name, tool
        return resource_of(tool, called, check, path, named, self._media_type(operation, at), at)

    def _media_type(self, operation: dict[str, Json], at: str) -> str | None:
        """Return the media type of the successful response; None if there are several or none."""
        at = below(at, "responses")
        found = set[str]()
        for code, node in object_at(operation.get("responses", {}), at).items():
            if code.startswith("2"):
                response, place = self.document.resolve(node, below(at, code))
                found.update(object_at(response.get("content", {}), below(place, "content")))
        [only, *others] = found or [""]
        return None if others or _MEDIA_TYPE.fullmatch(only) is None else only

    def _route(self, method: str, path: str, tags: Collection[str], *, readable: bool) -> str:
        matching = (
            route.to for route in self._routes if route.matches(method, path, tags, readable=readable)
        )
        return next(matching, "tool")

    def _parameters(
        self, schemas: Schemas, path: str, operation: dict[str, Json], item: dict[str, Json], at: str
    ) -> list[ApiArgument]:
        found: dict[tuple[str, str], ApiArgument] = {}
        own = self._backend.parameters_of_ours() | {("header", name) for name in _NOT_ARGUMENTS}
        of_path = at.rpartition("/")[0]
        for owner, where in ((item, of_path), (operation, at)):
            for index, node in enumerate(array_at(owner.get("parameters", []), below(where, "parameters"))):
                given, place = self.document.resolve(node, below(where, "parameters", index))
                argument = self._parameter(schemas, given, place)
                name = plain_name(argument.name) if argument.place == "cookie" else argument.name.lower()
                if (argument.place, name) not in own:
                    found[argument.name, argument.place] = argument
        variables = set(re.findall(r"\{([^{}]*)\}", path))
        for name in variables ^ {name for name, place in found if place == "path"}:
            refuse(
                at, f"has '{name}' in the path or in its path parameters, but not in both; add or remove it"
            )
        return list(found.values())

    def _parameter(self, schemas: Schemas, given: dict[str, Json], at: str) -> ApiArgument:
        name, place = text_at(given.get("name"), below(at, "name")), given.get("in")
        styles = [style for of, style in SEPARATORS if of == place]
        if not styles:
            refuse(below(at, "in"), f"is {place!r:.50}; use path, query, header or cookie")
        if place == "header" and not TOKEN.fullmatch(name):
            refuse(below(at, "name"), f"{name!r:.100} is not a valid header name; rename it")
        style, node, where = given.get("style", styles[0]), given.get("schema", {}), below(at, "schema")
        if style not in styles:
            refuse(
                below(at, "style"),
                f"is {style!r:.50}; use {' or '.join(styles)}, or leave it out with `select`",
            )
        explode = given.get("explode", style == "form") is True
        if "content" in given:
            node, where = self._json_content(given, at) or _refuse_content(at)
            style = "json"
        schema = schemas.convert(node, where)
        if isinstance(given.get("description"), str):
            schema["description"] = given["description"]
        required = place == "path" or given.get("required") is True
        return ApiArgument(
            name, str(place), schema, required, style, explode, given.get("allowReserved") is True
        )

    def _with_members(self, argument: ApiArgument, schemas: Schemas) -> ApiArgument:
        """Return an argument with the members that its schema declares."""
        names, more, seen = set[str](), False, set[str]()
        pending: list[Json] = [argument.schema]
        while pending:
            schema = pending.pop()
            if not isinstance(schema, OBJECT):
                continue
            names.update(schema.get("properties", ()))
            # Without the keyword, any members are allowed, but no one says that the API reads them.
            more = more or schema.get("additionalProperties", False) is not False
            for keyword in ("allOf", "anyOf", "oneOf"):
                pending += schema.get(keyword, ())
            name = str(schema.get("$ref", "")).rpartition("/")[2]
            if name in schemas.defs and name not in seen:
                seen.add(name)
                pending.append(schemas.defs[name])
        exploded = argument.style == "form" and argument.explode and argument.place in {"query", "cookie"}
        if not exploded:
            return argument
        return replace(argument, members=frozenset(names), more=more and argument.place == "query")

    def _keys(self) -> set[tuple[str, str]]:
        """Return the places and names of the keys that the document declares as credentials."""
        at = "#/components/securitySchemes"
        schemes = object_at(self.document.root.get("components", {}), "#/components").get(
            "securitySchemes", {}
        )
        found = (
            self.document.resolve(node, below(at, name))[0] for name, node in object_at(schemes, at).items()
        )
        return {
            (str(each.get("in")), str(each.get("name"))) for each in found if each.get("type") == "apiKey"
        }

    def _json_content(self, node: dict[str, Json], at: str) -> tuple[Json, str] | None:
        """Return the schema of the JSON in a parameter, body or response; None if it is not JSON."""
        content = object_at(node.get("content", {}), below(at, "content"))
        for kind, media in content.items():
            if JSON_TYPE.fullmatch(kind.partition(";")[0].strip()):
                where = below(at, "content", kind)
                return object_at(media, where).get("schema", {}), below(where, "schema")
        return None

    def _form(self, body: dict[str, Json], at: str) -> tuple[Json, str, FormBody]:
        """Return the schema of a body that is a form, its place, and how it is written. Raises `ValueError`."""
        for kind, media in object_at(body.get("content", {}), below(at, "content")).items():
            plain = kind.partition(";")[0].strip().lower()
            if plain in {MULTIPART, URL_ENCODED}:
                where = below(at, "content", kind)
                said = object_at(media, where)
                return (
                    said.get("schema", {}),
                    below(where, "schema"),
                    described_form(self.document, plain, said, where),
                )
        _refuse_content(at)

    def _body(self, schemas: Schemas, node: Json, at: str) -> tuple[list[ApiArgument], bool, FormBody | None]:
        """Return the arguments of a body, whether it is sent without any of them, and how it is written if not as JSON."""
        body, at = self.document.resolve(node, at)
        required, form = body.get("required") is True, None
        in_json = self._json_content(body, at)
        if in_json is None:
            given, where, form = self._form(body, at)
        else:
            given, where = in_json
        target, place = self.document.resolve(given, where) if isinstance(given, OBJECT) else ({}, where)
        whole = target.get("additionalProperties", False) is not False or target.get("nullable") is True
        whole = whole or bool(target.keys() & _COMBINED)
        if "properties" in target and not whole and target.get("type", "object") == "object":
            inner = schemas.convert(target, place)
            needed = array_at(inner.get("required", []), place)
            if (required or not needed) and inner["properties"].keys() >= set(needed):
                found = [
                    ApiArgument(name, "member", one, name in needed)
                    for name, one in inner["properties"].items()
                ]
                return _as_form(schemas, found, form), required, form
        schema = schemas.convert(given, where)
        if isinstance(body.get("description"), str):
            schema["description"] = body["description"]
        return _as_form(schemas, [ApiArgument("body", "body", schema, required)], form), False, form

    def _checked_output(
        self, operation: dict[str, Json], at: str
    ) -> tuple[dict[str, Json] | None, Validator | None]:
        """Return the schema of the successful answers, and its check; None for both if it cannot be used."""
        try:
            output = self._output(operation, at)
            if checkable(output) != output:
                refuse(below(at, "responses"), "has patterns that may take too long to match; simplify them")
            return output, None if output is None else _compiled(output, below(at, "responses"))
        except ValueError as error:  # the tool works without it
            _logger.warning("a tool has no output schema: %s", error)
            return None, None

    def _output(self, operation: dict[str, Json], at: str) -> dict[str, Json] | None:
        """Return the schema of the successful responses, if all of them are JSON. Raises `ValueError`."""
        at = below(at, "responses")
        responses = object_at(operation.get("responses", {}), at)
        schemas, found = Schemas(self.document, "writeOnly"), list[dict[str, Json]]()
        for code in responses:
            if not code.startswith("2"):
                continue
            response, place = self.document.resolve(responses[code], below(at, code))
            content = self._json_content(response, place)
            if content is None or not isinstance(content[0], OBJECT) or not content[0]:
                return None
            target, place = self.document.resolve(*content)
            if "type" not in target and "properties" in target:
                target = {"type": "object", **target}
            schema = schemas.convert(target, place)
            found += [schema] if schema and schema not in found else []
        if len(found) < 2:
            return schemas.finish(found[0]) if found else None
        same: dict[str, Json] = (
            {"type": "object"} if all(each.get("type") == "object" for each in found) else {}
        )
        return schemas.finish({**same, "anyOf": found})


def _as_form(schemas: Schemas, arguments: list[ApiArgument], form: FormBody | None) -> list[ApiArgument]:
    """Return the arguments of a body; files of a form are text."""
    if form is None or not any(field.is_file for field in form.fields.values()):
        return arguments
    for name, schema in schemas.defs.items():
        schemas.defs[name] = with_files_as_text(schema)
    return [replace(argument, schema=with_files_as_text(argument.schema)) for argument in arguments]


def _refuse_content(at: str) -> NoReturn:
    refuse(
        below(at, "content"),
        f"has no application/json, {URL_ENCODED} or {MULTIPART}; add one, or leave the operation out with `select`",
    )


def _compiled(schema: Json, at: str) -> Validator:
    try:
        return compile_schema(schema, trusted=True)
    except SchemaError as error:
        refuse(
            at, f"has a schema that cannot be used: {error}; fix it, or leave the operation out with `select`"
        )
