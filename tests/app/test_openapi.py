"""Apps made of an OpenAPI document: how operations become tools, and calls of a real HTTP API through them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import html
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock
from urllib.parse import quote, quote_plus

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, strategies as st

import mcprev
from fuzz.fuzzing import each_once
from helpers.linear import Text, assert_linear
from helpers.requirements import req
from helpers.running import run
from mcprev.app.arguments import ArgumentError
from mcprev.app.entries import RegisteredTool
from mcprev.app.openapi import (
    calls as openapi_calls,
    document as openapi_document,
    openapi,
    parameters as openapi_parameters,
    secrets as openapi_secrets,
)
from mcprev.app.openapi.calls import MAX_BODY, MAX_EXCERPT
from mcprev.app.openapi.openapi import Api, Select
from mcprev.app.openapi.secrets import Secrets
from mcprev.revisions import DEFAULT, Revision

BASE: Final = "http://api.example"
TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "integer"}
OK: Final = {"200": {"description": "ok"}}
PET: Final = {"type": "object", "properties": {"name": TEXT, "child": {"$ref": "#/components/schemas/Pet"}}}


def document(paths: Mapping[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    return {"openapi": version, "info": {"title": "pets", "version": "7"}, "paths": paths, **more}


def parameter(name: str, place: str = "query", schema: Any = TEXT, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema, **more}


def body(schema: Any, **more: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}, **more}


def tools_of(given: Any, select: Select | None = None) -> list[dict[str, Any]]:
    app = mcprev.App.from_openapi(given, base_url=BASE, select=select)

    async def main() -> list[dict[str, Any]]:
        async with mcprev.connect(app) as client:
            return [tool.to_wire() for tool in (await client.list_tools()).tools]

    return run(main())


def tool_of(
    operation: Mapping[str, Any], path: str = "/x", method: str = "post", **more: Any
) -> dict[str, Any]:
    [tool] = tools_of(document({path: {method: {"responses": OK, **operation}}}, **more))
    return tool


# -- what becomes of an operation --------------------------------------------------------------------------

REF: Final = {"$ref": "#/components/schemas/Pet"}
COMPONENTS: Final = {"schemas": {"Pet": PET, "Names": {"type": "array", "items": TEXT}}}
INPUTS: Final[Mapping[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "a parameter": (
        {"parameters": [parameter("q", description="what", required=True)]},
        {"properties": {"q": {"type": "string", "description": "what"}}, "required": ["q"]},
    ),
    "all places": (
        {"parameters": [parameter("h", "header"), parameter("c", "cookie"), parameter("q")]},
        {"properties": {"h": TEXT, "c": TEXT, "q": TEXT}},
    ),
    "headers of the connection are none": (
        {"parameters": [parameter("Authorization", "header"), parameter("Host", "header")]}, {"properties": {}},
    ),
    "members of a body": (
        {"requestBody": body({"properties": {"a": TEXT, "b": NUMBER}, "required": ["b"]}, required=True)},
        {"properties": {"a": TEXT, "b": NUMBER}, "required": ["b"]},
    ),
    "members that only answers have": (
        {"requestBody": body(
            {"properties": {"id": {"type": "integer", "readOnly": True}, "b": TEXT}, "required": ["id", "b"]},
            required=True,
        )},
        {"properties": {"b": TEXT}, "required": ["b"]},
    ),
    "an optional body with required members": (
        {"requestBody": body({"properties": {"a": TEXT}, "required": ["a"]})},
        {"properties": {"body": {"properties": {"a": TEXT}, "required": ["a"]}}},
    ),
    "a body that is not an object": (
        {"requestBody": body({"type": "array", "items": NUMBER}, required=True)},
        {"properties": {"body": {"type": "array", "items": NUMBER}}, "required": ["body"]},
    ),
    "a combined body": (
        {"requestBody": body({"anyOf": [PET | {"properties": {}}, {"type": "object"}]})},
        {"properties": {"body": {"anyOf": [{"type": "object", "properties": {}}, {"type": "object"}]}}},
    ),
    "a clash": (
        {"parameters": [parameter("id"), parameter("id", "header")],
         "requestBody": body({"properties": {"id": NUMBER, "id_query": TEXT}})},
        {"properties": {"id_query_query": TEXT, "id_header": TEXT, "id_body": NUMBER, "id_query": TEXT}},
    ),
    "references": (
        {"parameters": [parameter("p", schema=REF), parameter("n", schema={"$ref": "#/components/schemas/Names"})]},
        {
            "properties": {"p": {"$ref": "#/$defs/Pet"}, "n": {"$ref": "#/$defs/Names"}},
            "$defs": {
                "Pet": {"type": "object", "properties": {"name": TEXT, "child": {"$ref": "#/$defs/Pet"}}},
                "Names": COMPONENTS["schemas"]["Names"],
            },
        },
    ),
    "a parameter with JSON": (
        {"parameters": [{"name": "f", "in": "query", "content": {"application/json": {"schema": NUMBER}}}]},
        {"properties": {"f": NUMBER}},
    ),
    "members named as keywords": (
        {"requestBody": body({"properties": {"xml": {"type": "string", "xml": {"name": "y"}}, "x-a": TEXT}})},
        {"properties": {"xml": TEXT, "x-a": TEXT}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INPUTS)
def test_the_arguments_of_a_tool(name: str) -> None:
    operation, expected = INPUTS[name]
    found = tool_of(operation, components=COMPONENTS)["inputSchema"]
    assert found == {"type": "object", "additionalProperties": False, **expected}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 3}),
        ({"type": "integer", "maximum": 3, "exclusiveMaximum": False}, {"type": "integer", "maximum": 3}),
        ({"type": "string", "example": "a", "x-internal": 1}, TEXT),
    ],
)  # fmt: skip
def test_schemas_of_3_0_become_json_schema(schema: Any, expected: Any) -> None:
    found = tool_of({"parameters": [parameter("q", schema=schema)]}, version="3.0.3")["inputSchema"]
    assert found["properties"]["q"] == expected


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        ({"200": body(REF)}, PET | {"$defs": {"Pet": PET}}),
        ({"201": body({"properties": {"a": TEXT}})}, {"type": "object", "properties": {"a": TEXT}}),
        ({"2XX": body({"type": "object"})}, {"type": "object"}),
        ({"200": body({"type": "array"})}, {"type": "array"}),
        ({"200": body({**TEXT, "nullable": True})}, {"type": ["string", "null"]}),
        ({"200": body({})}, None),
        ({"200": body(REF), "201": body(REF)}, PET | {"$defs": {"Pet": PET}}),
        (
            {"200": body({"type": "object"}), "201": body({"properties": {"a": TEXT}})},
            {
                "type": "object",
                "anyOf": [{"type": "object"}, {"type": "object", "properties": {"a": TEXT}}],
            },
        ),
        ({"200": body(TEXT), "201": body(NUMBER)}, {"anyOf": [TEXT, NUMBER]}),
        ({"200": body({"type": "object", "properties": {"a": {"$ref": "http://x/y"}}})}, None),
        ({"200": body(REF), "204": {"description": "none"}}, None),
        ({"200": {"content": {"text/plain": {}}}}, None),
        ({"404": body(REF)}, None),
    ],
)
def test_the_output_schema_of_a_tool(responses: Any, expected: Any) -> None:
    found = tool_of({"responses": responses}, components=COMPONENTS).get("outputSchema")
    assert json.dumps(found).replace("components/schemas", "$defs") == json.dumps(expected).replace(
        "components/schemas", "$defs"
    )


@pytest.mark.parametrize(
    ("method", "annotations"),
    [
        ("get", {"readOnlyHint": True}), ("head", {"readOnlyHint": True}), ("delete", {"destructiveHint": True}),
        ("put", {"idempotentHint": True}), ("post", None), ("patch", None),
    ],
)  # fmt: skip
def test_methods_make_annotations(method: str, annotations: Any) -> None:
    assert tool_of({}, method=method).get("annotations") == annotations


def posts(method: str, path: str, operation: Mapping[str, Any]) -> bool:
    return method == "POST"


def test_names_and_descriptions() -> None:
    paths: dict[str, Any] = {
        "/a": {
            "get": {"operationId": "list pets/all", "summary": "List.", "description": "All of them."},
            "post": {"operationId": "same", "summary": "Same.", "description": "Same."},
        },
        "/b/{id}": {
            "parameters": [parameter("id", "path")],
            "get": {"operationId": "same"},
            "put": {"operationId": "p" * 200},
        },
        "/b/id": {"get": {}},
    }
    found = {tool["name"]: tool.get("description") for tool in tools_of(document(paths))}
    assert found == {
        "list_pets_all": "List.\n\nAll of them.", "post_a": "Same.", "get_b_id": None, "p" * 128: None,
        "get_b_id_2": None,
    }  # fmt: skip
    assert [tool["name"] for tool in tools_of(document(paths), select=posts)] == ["post_a"]


# -- calls of a real API ---------------------------------------------------------------------------------


async def body_of(request: web.Request) -> dict[str, Any]:
    if request.content_type == "application/json":
        return {"body": await request.json()}
    return {"form": [[name, *field_of(value)] for name, value in (await request.post()).items()]}


def field_of(value: Any) -> list[str | None]:
    if isinstance(value, web.FileField):
        return [value.file.read().hex(), value.content_type, value.filename]
    return [value if isinstance(value, str) else bytes(value).decode()]


async def respond(request: web.Request) -> web.StreamResponse:
    match request.path:
        case "/v1/huge":
            return web.Response(text="x" * (MAX_BODY + 1))
        case "/v1/fail":
            return web.Response(
                status=418, text=f"no: {request.headers['X-Key']} {request.headers['Auth']}" + "y" * 2000
            )
        case "/v1/page":
            return web.Response(status=502, text=PAGE, content_type="text/html")
        case "/v1/away" | "/v1/near" | "/v1/circle":
            to = {"away": "http://other.example/x", "near": "/v1/text", "circle": "/v1/circle"}
            return web.Response(status=302, headers={"Location": to[request.path.removeprefix("/v1/")]})
        case "/v1/text":
            return web.Response(text="hello")
        case "/v1/list":
            return web.json_response([1, 2])
        case "/v1/broken":
            return web.Response(text="{", content_type="application/json")
        case "/v1/names":
            return web.Response(
                body=b"xn--" + b"a9" * (MAX_BODY // 2 - 8),
                headers={"Content-Type": "text/plain; charset=IDNA"},
            )
        case "/v1/undefined":
            return web.Response(body=b"x", headers={"Content-Type": "text/plain; charset=undefined"})
        case "/v1/never":
            await asyncio.Event().wait()
            return web.Response()
        case "/v1/bytes":
            return web.Response(body=b"\xff\xfe", content_type="image/png")
        case _:
            told: dict[str, Any] = {"target": request.raw_path, "method": request.method}
            told["headers"] = {
                name: request.headers[name] for name in ("X-H", "Cookie") if name in request.headers
            }
            if request.can_read_body:
                told |= await body_of(request)
            return web.json_response(told)


@asynccontextmanager
async def served(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]] = respond,
) -> AsyncGenerator[str, None]:
    api = web.Application()
    api.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(api, shutdown_timeout=1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


PAGE: Final = (
    "<!DOCTYPE html><html><head><title>502 Bad Gateway</title><style>p { color: red }</style>\n<SCRIPT>var a = '<p>';</Script>"
    "</head>\n<!-- <p>padding --><body><h1>502  Bad&nbsp;Gateway</h1><hr>nginx &lt;1.2&gt; <b>key-of-ours</b></body></html>"
)
SECRETS: Final = {"X-Key": "key-of-ours", "Auth": "Bearer token-of-ours"}


def call(
    operation: Mapping[str, Any],
    arguments: Mapping[str, Any],
    path: str = "/x",
    *,
    mode: str = "auto",
    method: str = "post",
    headers: Mapping[str, str] = SECRETS,
    **more: Any,
) -> Any:
    """The result of one call of an operation that a real server answers."""

    async def main() -> Any:
        async with served() as url:
            given = document({path: {method: {"operationId": "it", "responses": OK, **operation}}}, **more)
            app = mcprev.App.from_openapi(given, base_url=url, headers=headers)
            async with mcprev.connect(app, mode=mode) as client:
                return await client.call_tool("it", dict(arguments))

    return run(main())


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content)


def answer_of(result: Any) -> Any:
    assert not getattr(result, "is_error", None), text_of(result)
    return json.loads(text_of(result))


LENIENT: Final[dict[str, Any]] = {
    "n": {"type": "integer"},
    "x": {"type": "number"},
    "b": {"type": "boolean"},
    "s": TEXT,
    "e": {"enum": ["5", "a"]},
    "l": {"type": "array", "items": {"type": "integer"}},
    "o": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({"n": "5"}, {"n": 5}),
        ({"n": " -5 "}, {"n": -5}),
        ({"x": "1.50"}, {"x": 1.5}),
        ({"b": "True"}, {"b": True}),
        ({"l": "[1, 2]"}, {"l": [1, 2]}),
        ({"l": ["1", 2]}, {"l": [1, 2]}),
        ({"l": '["1"]'}, {"l": [1]}),
        ({"o": '{"n": "7"}'}, {"o": {"n": 7}}),
        ({"n": "", "b": "null", "s": "x"}, {"s": "x"}),
        ({"s": "5", "e": "5"}, {"s": "5", "e": "5"}),  # what is valid stays
        ({"n": "5.5"}, None),
        ({"n": "five"}, None),
        ({"n": "NaN"}, None),
        ({"x": "Infinity"}, None),
        ({"x": "1e999"}, None),
        ({"n": "9" * 5000}, None),
        ({"l": "1"}, None),
        ({"s": 5}, None),
        ({"e": "6"}, None),
        ({"o": '{"n": "x"}'}, None),
        ({"n": "5", "l": "x"}, None),  # one that fits does not save another
        ({"q": "5"}, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_texts_that_models_send_are_converted_to_the_types_of_an_operation(
    sent: dict[str, Any], meant: dict[str, Any] | None
) -> None:
    """As for functions; `strict_arguments=True` refuses what is converted."""
    parts = body({"type": "object", "properties": LENIENT})
    operation = {"operationId": "it", "requestBody": parts, "responses": OK}

    def reads(**options: Any) -> Any:
        ((_, _, tool),) = Api(document({"/x": {"post": operation}}), BASE, **options).entries()
        assert isinstance(tool, RegisteredTool)
        return tool.function.read(sent)["arguments"]

    if meant is None:
        with pytest.raises(ArgumentError):
            reads()
    else:
        assert reads() == meant
    if meant != sent:
        with pytest.raises(ArgumentError):
            reads(strict_arguments=True)


@pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)
def test_a_call_at_each_revision(row: Revision) -> None:
    operation = {
        "parameters": [parameter("id", "path", NUMBER, required=True), parameter("X-H", "header")],
        "requestBody": body({"properties": {"name": TEXT, "none": {"type": "null"}}}, required=True),
        "responses": {
            "200": body({"type": "object", "properties": {"target": TEXT}, "required": ["target"]})
        },
    }
    result = call(operation, {"id": 5, "X-H": "é", "name": "x", "none": None}, "/pets/{id}", mode=row.name)
    assert answer_of(result) == {
        "target": "/v1/pets/5", "method": "POST", "headers": {"X-H": "é"}, "body": {"name": "x", "none": None},
    }  # fmt: skip


LISTS: Final = {"type": "array"}
OBJECTS: Final = {"type": "object"}
FIELDS: Final[dict[str, Any]] = {"type": "object", "properties": {"a": {}, "b": {}}}
TARGETS: Final[list[tuple[dict[str, Any], Any, str]]] = [
    (parameter("q"), "a&b=c #/é", "?q=a%26b%3Dc%20%23%2F%C3%A9"),
    (parameter("q", schema={"type": "boolean"}), True, "?q=true"),
    (parameter("q", schema=LISTS), ["a", "b,c"], "?q=a&q=b%2Cc"),
    (parameter("q", schema=LISTS, explode=False), ["a", "b,c"], "?q=a,b%2Cc"),
    (parameter("q", schema=LISTS, style="spaceDelimited"), ["a", "b"], "?q=a%20b"),
    (parameter("q", schema=LISTS, style="pipeDelimited", explode=False), ["a", "b"], "?q=a%7Cb"),
    (parameter("q", schema=FIELDS), {"a": 1, "b": "c"}, "?a=1&b=c"),
    (parameter("q", schema=OBJECTS | {"additionalProperties": TEXT}), {"a": "1", "q": "c"}, "?a=1&q=c"),
    (parameter("q", schema={"allOf": [{"$ref": "#/components/schemas/Fields"}]}), {"a": 1}, "?a=1"),
    (parameter("q", schema=OBJECTS, explode=False), {"a": 1, "b": "c"}, "?q=a,1,b,c"),
    (parameter("q", schema=OBJECTS, style="deepObject", explode=True), {"a": 1}, "?q%5Ba%5D=1"),
    ({"name": "q", "in": "query", "content": {"application/json": {}}}, {"a": 1}, "?q=%7B%22a%22%3A%201%7D"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "value", "expected"), TARGETS)
def test_how_values_are_written_in_a_query(given: Any, value: Any, expected: str) -> None:
    found = call({"parameters": [given]}, {"q": value}, components={"schemas": {"Fields": FIELDS}})
    assert answer_of(found)["target"] == f"/v1/x{expected}"


def test_values_in_paths_headers_and_cookies() -> None:
    given = [
        parameter("p", "path", LISTS, required=True, allowReserved=True),
        parameter("X-H", "header", LISTS),
        parameter("c", "cookie"),
    ]
    arguments = {"p": ["a/b", "{c}?"], "X-H": ["1", "2"], "c": "a; b=c"}
    found = answer_of(call({"parameters": given}, arguments, "/x/{p}"))
    assert found["target"] == "/v1/x/a%2Fb,%7Bc%7D%3F"
    assert found["headers"] == {"X-H": "1,2", "Cookie": "c=a%3B%20b%3Dc"}


NULLABLE: Final = {"type": ["string", "array", "object", "null"]}
UNDEFINED: Final[Mapping[str, tuple[dict[str, Any], Any]]] = {
    "a text": (parameter("q", schema=NULLABLE), None),
    "a required text": (parameter("q", schema=NULLABLE, required=True), None),
    "a list": (parameter("q", schema=NULLABLE), [None]),
    "a list with commas": (parameter("q", schema=NULLABLE, explode=False), [None, None]),
    "a list with pipes": (parameter("q", schema=NULLABLE, style="pipeDelimited", explode=False), None),
    "members": (parameter("q", schema={**FIELDS, "type": ["object", "null"]}), {"a": None}),
    "an object": (parameter("q", schema=NULLABLE, style="deepObject", explode=True), {"a": None}),
    "no object": (parameter("q", schema=NULLABLE, style="deepObject", explode=True), None),
    "JSON": ({"name": "q", "in": "query", "content": {"application/json": {"schema": NULLABLE}}}, None),
    "a header": (parameter("X-H", "header", NULLABLE), None),
    "a list in a header": (parameter("X-H", "header", NULLABLE), [None]),
    "a cookie": (parameter("c", "cookie", NULLABLE), None),
    "what is no null": (parameter("q", schema=NUMBER), None),
}


@pytest.mark.parametrize("case", UNDEFINED)
def test_a_parameter_that_is_null_is_left_out(case: str) -> None:
    given, value = UNDEFINED[case]
    found = answer_of(call({"parameters": [given]}, {given["name"]: value}))
    assert (found["target"], found["headers"]) == ("/v1/x", {})


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        (parameter("q", schema=NULLABLE), ["a", None, "b"], "?q=a&q=b"),
        (parameter("q", schema=NULLABLE, explode=False), ["a", None], "?q=a"),
        (parameter("q", schema=NULLABLE, style="deepObject", explode=True), {"a": None, "b": "c"}, "?q%5Bb%5D=c"),
        ({"name": "q", "in": "query", "required": True, "content": {"application/json": {}}}, None, "?q=null"),
        (parameter("q", schema=NULLABLE), "null", "?q=null"),
    ],
)  # fmt: skip
def test_null_within_a_parameter_is_left_out(given: Any, value: Any, expected: str) -> None:
    assert answer_of(call({"parameters": [given]}, {"q": value}))["target"] == f"/v1/x{expected}"


def test_null_is_no_part_of_a_path() -> None:
    result = call({"parameters": [parameter("v", "path", NULLABLE, required=True)]}, {"v": None}, "/x/{v}")
    assert result.is_error
    assert "'v' is empty" in text_of(result)


FILE: Final = {"type": "string", "format": "binary"}
NAMES: Final = {"type": "array", "items": TEXT}
ADDRESS: Final = {"type": "object", "properties": {"city": TEXT}}
URL_ENCODED: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"
FORMS: Final[Mapping[str, tuple[dict[str, Any], dict[str, Any], list[list[Any]]]]] = {
    "texts": (
        {URL_ENCODED: {"schema": {"properties": {"a": TEXT, "b": NUMBER, "c": {"type": "boolean"}}, "required": ["a"]}}},
        {"a": "\u00e9 &=+", "b": 5, "c": True}, [["a", "\u00e9 &=+"], ["b", "5"], ["c", "true"]],
    ),
    "what is left out": (
        {URL_ENCODED: {"schema": {"properties": {"a": TEXT, "b": NULLABLE, "c": NULLABLE}}}},
        {"a": "", "b": None, "c": [None, "x"]}, [["a", ""], ["c", "x"]],
    ),
    "lists and objects": (
        {URL_ENCODED: {"schema": {"properties": {"n": NAMES, "o": ADDRESS}}}},
        {"n": ["a", "b,c"], "o": {"city": "x"}}, [["n", "a"], ["n", "b,c"], ["o", '{"city": "x"}']],
    ),
    "styles": (
        {URL_ENCODED: {
            "schema": {"properties": {"n": NAMES, "o": ADDRESS, "p": NAMES}},
            "encoding": {
                "n": {"style": "form", "explode": False}, "o": {"style": "deepObject", "explode": True}, "p": {"style": "pipeDelimited"},
            },
        }},
        {"n": ["a", "b"], "o": {"city": "x y"}, "p": ["1", "2"]}, [["n", "a,b"], ["o[city]", "x y"], ["p", "1|2"]],
    ),
    "a body of any members": ({URL_ENCODED: {"schema": {"type": "object"}}}, {"body": {"a": 1, "b": ["c"]}}, [["a", "1"], ["b", "c"]]),
    "parts": (
        {MULTIPART: {"schema": {"properties": {"a": TEXT, "o": ADDRESS, "n": NAMES}}}},
        {"a": "\u00e9\r\n", "o": {"city": "x"}, "n": ["1", "2"]}, [["a", "\u00e9\r\n"], ["o", '{"city": "x"}'], ["n", "1"], ["n", "2"]],
    ),
    "files": (
        {MULTIPART: {
            "schema": {"properties": {
                "one": FILE, "two": {"type": "array", "items": {"$ref": "#/components/schemas/File"}},
                "none": {"anyOf": [FILE, {"type": "null"}]}, "text": {"type": "string", "contentEncoding": "base64"},
            }},
            "encoding": {"one": {"contentType": "image/png, image/jpeg"}},
        }},
        {"one": "//8=", "two": ["AA==", "AQ=="], "none": None, "text": "//8="},
        [["one", "ffff", "image/png", "one"], *(["two", each, "application/octet-stream", "two"] for each in ("00", "01")), ["text", "//8="]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMS)
def test_a_body_that_is_a_form_is_sent(case: str) -> None:
    content, arguments, expected = FORMS[case]
    schemas = {"File": {"type": "string", "contentMediaType": "application/pdf"}}
    found = call(
        {"requestBody": {"required": True, "content": content}}, arguments, components={"schemas": schemas}
    )
    assert answer_of(found)["form"] == expected


def test_files_are_arguments_in_base64() -> None:
    schema = {
        "properties": {
            "file": {**FILE, "description": "A picture."},
            "others": {"type": "array", "items": FILE},
        }
    }
    operation = {"requestBody": {"content": {MULTIPART: {"schema": schema}}}}
    members = tool_of(operation)["inputSchema"]["properties"]
    told = "Base64 of the bytes of the file."
    assert members["file"] == {
        "type": "string", "contentEncoding": "base64", "description": f"A picture. {told}",
    }  # fmt: skip
    assert members["others"]["items"] == {"type": "string", "contentEncoding": "base64", "description": told}
    result = call(operation, {"file": "no base64!"})
    assert text_of(result) == "'file' is not base64; pass the bytes of the file in base64"


def test_a_body_is_sent_as_json_if_it_can_be() -> None:
    schema = {"schema": {"properties": {"a": TEXT}}}
    content = {MULTIPART: schema, URL_ENCODED: schema, "application/json": schema}
    assert answer_of(call({"requestBody": {"content": content}}, {"a": "b"}))["body"] == {"a": "b"}


def test_an_operation_that_cannot_be_a_tool_is_left_out_and_told(caplog: pytest.LogCaptureFixture) -> None:
    """Each of those of documents that cannot be used, beside one that can be a tool."""
    tried = 0
    for name, (bad, why) in BAD.items():
        paths = bad.get("paths")
        if not isinstance(paths, dict) or not paths or name == "not JSON":
            continue
        tried += 1
        caplog.clear()
        both: dict[str, Any] = {**bad, "paths": {**paths, "/good": {"get": {"operationId": "good"}}}}
        api = openapi.Api({"servers": [{"url": BASE}], **both})
        assert [key for _, key, _ in api.entries()] == ["good"], name
        assert "an operation is left out: " in caplog.text, name
        assert why in caplog.text, name
    assert tried > 15


def test_a_page_that_is_an_error_is_its_text() -> None:
    result = call({}, {}, "/page", method="get")
    assert text_of(result) == (
        "GET /page returned status 502: 502 Bad Gateway 502 Bad Gateway nginx <1.2> ***"
    )


@pytest.mark.parametrize(
    "again", ["<", "<p", "<!--", "<script", "</script", "<style>", "<!-- -->", "&lt;", " "]
)
@req("SEC-6", everywhere=True)
def test_the_steps_of_reading_a_page_grow_with_it(again: str) -> None:
    assert_linear(
        openapi_calls._text_of,  # pyright: ignore[reportPrivateUsage]
        lambda size: Text("<html>" + again * size),
        openapi_calls,
    )


@pytest.mark.parametrize("required", [False, True])
def test_a_body_without_members_is_sent_if_it_is_required(required: bool) -> None:
    found = answer_of(call({"requestBody": body({"properties": {"a": TEXT}}, required=required)}, {}))
    assert found.get("body") == ({} if required else None)


def test_a_whole_body_is_sent_as_it_is() -> None:
    assert answer_of(call({"requestBody": body({"type": "array"}, required=True)}, {"body": [1, None]}))[
        "body"
    ] == [1, None]


HOSTILE: Final[list[tuple[str, str, str]]] = [
    *(
        ("path", value, "would change other segments")
        for value in (
            "..",
            ".",
            "",
            "../admin",
            "a/../../admin",
            "..\\admin",
            "a/admin",
            # for servers that decode twice, or cut off what follows a semicolon
            "%2e%2e",
            "%2E.",
            "%252e%252e",
            "..%2fadmin",
            "a%5c..",
            "..;",
            ".;a=b",
            "..%3bx",
        )
    ),
    *(("header", value, "line breaks") for value in ("a\r\nX-Evil: 1", "a\n", "a\x00")),
]


@pytest.mark.parametrize(("place", "value", "why"), HOSTILE)
def test_a_value_that_leaves_its_place_is_refused(place: str, value: str, why: str) -> None:
    result = call(
        {"parameters": [parameter("v", place, required=True)]},
        {"v": value},
        "/x/{v}" if place == "path" else "/x",
    )
    assert result.is_error
    assert why in text_of(result)


@pytest.mark.parametrize("value", ["https%3A%2F%2Fa.example%2F", "a;b", ".a", "...", "100%", "a..b", "..a"])
def test_a_value_that_only_looks_like_one_that_leads_out_is_sent(value: str) -> None:
    result = call({"parameters": [parameter("v", "path", required=True)]}, {"v": value}, "/x/{v}")
    assert answer_of(result)["target"] == "/v1/x/" + quote(value, safe="")


def test_two_values_do_not_make_a_segment_that_leads_out() -> None:
    given = [parameter(name, "path", required=True, allowReserved=True) for name in "ab"]
    path = "/x/{a}{b}/y"
    found = answer_of(call({"parameters": given}, {"a": "%2ea", "b": "x"}, path))
    assert found["target"] == "/v1/x/%252eax/y"
    result = call({"parameters": [given[0]]}, {"a": "x/"}, "/x/{a}../y")
    assert "segment '.' or '..'" in text_of(result)


ANSWERS: Final[Mapping[str, tuple[bool, str]]] = {
    "/text": (False, "hello"),
    "/list": (False, "[1, 2]"),
    "/near": (False, "hello"),
    "/away": (True, "GET /away redirects to another host, which is not followed"),
    "/circle": (True, "GET /circle redirects more than 5 times"),
    "/huge": (True, f"GET /huge returned more than {MAX_BODY} bytes; request less"),
    "/broken": (True, "GET /broken returned invalid JSON"),
    "/bytes": (True, "GET /bytes returned image/png, which is not text"),
    "/undefined": (True, "GET /undefined returned text/plain, which is not text"),
}


@pytest.mark.parametrize("path", ANSWERS)
def test_what_an_answer_becomes(path: str) -> None:
    result = call({}, {}, path, method="get")
    assert (bool(getattr(result, "is_error", None)), text_of(result)) == ANSWERS[path]


def test_an_answer_in_an_encoding_that_is_slow_to_read_is_read_as_text() -> None:
    result = call({}, {}, "/names", method="get")
    assert text_of(result).startswith("xn--a9a9")


def test_an_answer_that_does_not_come_is_an_error_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert openapi_calls.TIMEOUT.total == 30
    monkeypatch.setattr(openapi_calls, "TIMEOUT", aiohttp.ClientTimeout(total=0.05))
    result = call({}, {}, "/never", method="get")
    assert text_of(result) == "GET /never did not respond within 0.05 s; try again later"


def test_a_session_of_the_caller_is_used_and_not_closed() -> None:
    async def main() -> None:
        async with served() as url, aiohttp.ClientSession(headers={"X-H": "ours"}) as session:
            app = mcprev.App.from_openapi(document({"/x": {"get": {}}}), base_url=url, session=session)
            async with mcprev.connect(app) as client:
                for _ in range(2):
                    assert answer_of(await client.call_tool("get_x", {}))["headers"] == {"X-H": "ours"}
            assert not session.closed

    run(main())


ANY: Final = {"type": "object", "additionalProperties": True}
LEADS_OUT: Final[Mapping[str, tuple[list[Any], Any]]] = {
    "a declared parameter": ([parameter("o", schema=ANY), parameter("admin")], {"o": {"admin": "1"}}),
    "a declared parameter, otherwise spelled": (
        [parameter("o", schema=ANY), parameter("is_admin")], {"o": {"Is.Admin": "1"}},
    ),
    "a part of a declared parameter": ([parameter("o", schema=ANY), parameter("user")], {"o": {"user[admin]": "1"}}),
    "what parts of a declared parameter are in": (
        [parameter("o", schema=ANY), parameter("user[name]")], {"o": {"user": "1"}},
    ),
    "a declared member": ([parameter("o", schema=ANY), parameter("p", schema=FIELDS)], {"o": {"a": "1"}}),
    "a member that is declared as a parameter": ([parameter("o", schema=FIELDS), parameter("b")], {"o": {"b": 1}}),
    "any members of two objects": ([parameter("o", schema=ANY), parameter("p", schema=ANY)], {"o": {"x": "1"}}),
    "what nobody declares": ([parameter("o", schema=OBJECTS)], {"o": {"admin": "1"}}),
    "an empty name": ([parameter("o", schema=ANY)], {"o": {"": "1"}}),
    "a name that ends early": ([parameter("o", schema=ANY), parameter("a")], {"o": {"a\x00b": "1"}}),
    "a name with a separator": ([parameter("o", schema=ANY)], {"o": {"x&admin=1": "1"}}),
    "the key of the API": ([parameter("o", schema=ANY)], {"o": {"Api-Key": "1"}}),
    "a member that is the key of the API": (
        [parameter("o", schema=OBJECTS | {"properties": {"api_key": TEXT}})], {"o": {"api_key": "1"}},
    ),
    "brackets": ([parameter("o", schema=ANY, style="deepObject", explode=True)], {"o": {"a][b": "1"}}),
    "a declared parameter with brackets": (
        [parameter("o", schema=ANY, style="deepObject"), parameter("o[a]")], {"o": {"a": "1"}},
    ),
    "a cookie of ours that nobody declares": ([parameter("c", "cookie", ANY)], {"c": {"session": "1"}}),
    "a cookie that nobody declares": ([parameter("c", "cookie", ANY)], {"c": {"other": "1"}}),
    "a declared cookie": (
        [parameter("c", "cookie", OBJECTS | {"properties": {"d": TEXT}}), parameter("d", "cookie")], {"c": {"d": "1"}},
    ),
    "a member that is a cookie of ours": (
        [parameter("c", "cookie", OBJECTS | {"properties": {"session": TEXT}})], {"c": {"session": "1"}},
    ),
}  # fmt: skip
KEYS: Final = {
    "securitySchemes": {"k": {"$ref": "#/components/x"}},
    "x": {"type": "apiKey", "in": "query", "name": "api_key"},
}


@pytest.mark.parametrize("case", LEADS_OUT)
def test_an_object_sets_no_parameter_of_another_name(case: str) -> None:
    parameters, arguments = LEADS_OUT[case]
    headers = {"Cookie": "session=of-ours"}
    result = call({"parameters": parameters}, arguments, components=KEYS, headers=headers)
    assert result.is_error
    assert re.search("is not declared or belongs to another|of the session that calls", text_of(result))


def test_an_object_in_a_query_may_have_the_name_of_a_header() -> None:
    given = [parameter("o", schema=ANY), parameter("a", "header")]
    assert answer_of(call({"parameters": given}, {"o": {"a": "1"}}))["target"] == "/v1/x?a=1"


@pytest.mark.parametrize(
    "given",
    [
        parameter("Cookie", "header"), parameter("proxy-authorization", "header"), parameter("x-key", "header"),
        parameter("session", "cookie"), parameter("Session", "cookie"), parameter("x-default", "header"),
        parameter("jar", "cookie"), parameter("ses-sion", "cookie"),
    ],
)  # fmt: skip
def test_what_the_caller_sends_is_no_argument(given: Any) -> None:
    async def main() -> None:
        async with aiohttp.ClientSession(headers={"X-Default": "a"}, cookies={"jar": "b"}) as session:
            headers = {"X-Key": "a", "cookie": "a=b; session=c"}
            app = mcprev.App.from_openapi(
                with_operation({"parameters": [given]}), base_url=BASE, headers=headers, session=session
            )
            async with mcprev.connect(app) as client:
                [tool] = (await client.list_tools()).tools
                assert tool.input_schema.to_wire()["properties"] == {}

    run(main())


@pytest.mark.parametrize("place", ["cookie", "header"])
def test_what_a_session_gets_later_is_no_argument(place: str) -> None:
    async def main() -> None:
        async with (
            served() as url,
            aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
        ):
            given = with_operation({"parameters": [parameter("late", place)]})
            app = mcprev.App.from_openapi(given, base_url=url, session=session)
            async with mcprev.connect(app) as client:
                assert not (await client.call_tool("get_a", {"late": "1"})).is_error
                session.headers["Late"] = "ours"
                session.cookie_jar.update_cookies({"late": "ours"})
                result = await client.call_tool("get_a", {"late": "1"})
                assert f"sets a {place} of the session" in text_of(result)

    run(main())


# -- credentials -----------------------------------------------------------------------------------------

SPELLINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "as it is": str,
    "in upper case": str.upper,
    "in upper case, divided": lambda text: " ".join(text.upper()),
    "percent-encoded": lambda text: quote(text, safe=""),
    "percent-encoded in whole": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "percent-encoded twice": lambda text: quote(quote(text, safe=""), safe=""),
    "of a form": quote_plus,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "escaped": lambda text: "".join(f"\\u{ord(letter):04X}" for letter in text),
    "escaped with braces": lambda text: "".join(f"\\u{{{ord(letter):x}}}" for letter in text),
    "escaped bytes": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode("latin-1")),
    "of escape()": lambda text: "".join(f"%u{ord(letter):04x}" for letter in text),
    "HTML": html.escape,
    "HTML in whole": lambda text: "".join(f"&#{ord(letter)};" for letter in text),
    "HTML in hexadecimal": lambda text: "".join(f"&#x{ord(letter):X};" for letter in text),
    "named letters of HTML": lambda text: text.replace("-", "&hyphen;").replace(":", "&colon;"),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "within base64": lambda text: base64.b64encode(f"a: {text}, b".encode()).decode(),
    "within base64, later": lambda text: base64.b64encode(f"ab: {text}, b".encode()).decode(),
    "within base64, last": lambda text: base64.b64encode(f"abc: {text}".encode()).decode(),
    "base64 in lines": lambda text: re.sub("(.{7})", r"\1\r\n", base64.b64encode(text.encode()).decode()),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal in groups": lambda text: text.encode().hex(":"),
    "divided by blanks": " ".join,
    "divided by lines": lambda text: text[:5] + "\n" + text[5:],
    "divided by escaped lines": lambda text: text[:5] + "\\n" + text[5:],
    "divided by quotes": lambda text: text[:5] + '" + "' + text[5:],
}
SAMPLES: Final = (
    "key-of+our/own==",
    "Zq8.r-:tok_en&<9>",
    'pass word%41"x\\y',
    "0123456789",
    "üñï-c0de-9",
    "hunter2",
)


@pytest.mark.parametrize(
    ("how", "secret"),
    [(how, secret) for how in SPELLINGS for secret in SAMPLES if how != "escaped bytes" or secret.isascii()],
)
def test_a_secret_is_hidden_however_it_is_spelled(how: str, secret: str) -> None:
    spelled, secrets = SPELLINGS[how](secret), Secrets([secret])
    for text in (spelled, f"first line\ntoken: {spelled}; rest\nlast line", f"<a>{spelled}</a>"):
        hidden = secrets.hide(text)
        assert "***" in hidden
        assert not any(word in hidden for word in spelled.split() if len(word) > 3)
        if "\n" in text and "\n" not in spelled:
            assert hidden.startswith("first line\n")
            assert hidden.endswith("\nlast line")
    value: Any = secrets.hide_in({"a": [spelled, {spelled: True}], "b": 5, "c": None, "d": "other"})
    assert value == {"a": [value["a"][0], {value["a"][0]: True}], "b": 5, "c": None, "d": "other"}
    assert "***" in value["a"][0]


@given(st.text(max_size=60))
def test_what_is_no_secret_stays(text: str) -> None:
    secrets = Secrets(["key-of-ours", "Zq8.r-:tok_en"])
    assert secrets.hide(text) == text
    assert secrets.hide_in({text: [text, 1.5]}) == {text: [text, 1.5]}
    assert Secrets([]).hide(text) == text
    assert Secrets(["key\udcff-of-ours"]).hide("key\udcff-of-ours") == "***"


@pytest.mark.parametrize(
    ("secret", "text", "expected"),
    [
        ("en-US", "It is used when us", "It is used when us"),
        ("1234", "[1, 2, 3, 4], 12345 and 51234", "[1, 2, 3, 4], 12345 and 51234"),
        ("1234", "pin=1234; rest", "pin=***; rest"),
        ("1234", "pin\\u003d%31234", "***"),
        ("ab-c", "xab-c, AB-C_", "xab-c, ***_"),
        ("ab-c", "'ab-C'", "'***'"),
        ("!?", "what!?", "what***"),
        ("hunt-er", "a hu nt er", "***"),
    ],
)
def test_a_secret_of_few_letters_is_hidden_as_a_word(secret: str, text: str, expected: str) -> None:
    assert Secrets([secret]).hide(text) == expected


@pytest.mark.parametrize("again", ["a", "a.", "Ab", "1-", "a=", ";a", "  ", "Za-z0-"])
@req("SEC-6", everywhere=True)
def test_the_steps_of_reading_names_and_headers_grow_with_them(again: str) -> None:
    """An object of a caller has the names, and a server may set the cookies."""
    one = openapi_parameters.ApiArgument(
        "f", "query", {}, required=False, style="form", explode=True, more=True
    )

    def check(name: str) -> None:
        with contextlib.suppress(mcprev.ToolError):
            one.check("f", {name: 1}, Counter())

    def read(text: str) -> None:
        list(openapi_secrets.credentials({"X-A": text, "Cookie": text}))

    for end in ("", "!"):
        assert_linear(check, lambda size, end=end: Text(again * size + end), openapi_calls, sizes=(32, 64, 128))  # type: ignore[misc]
        assert_linear(read, lambda size, end=end: Text(again * size + end), openapi_secrets, sizes=(32, 64, 128))  # type: ignore[misc]


def test_numbers_and_short_texts_of_an_answer_are_passed_over() -> None:
    """There may be as many as bytes in an answer."""
    secrets = Secrets(["key-of-ours"])
    with mock.patch.object(openapi_secrets, "_bare", side_effect=AssertionError):
        assert secrets.hide_in([1, "key", {"a": 2.5}]) == [1, "key", {"a": 2.5}]


@pytest.mark.parametrize(
    "again", ["%41", "\\u0041", "&#65;", "&#0", "&", "\\", "%", "key-of-our", "%u00", "&amp;"]
)
@req("SEC-6", everywhere=True)
def test_the_steps_of_hiding_secrets_grow_with_the_answer(again: str) -> None:
    secrets = Secrets(["key-of-ours"])
    for text in (again, again + "key-of-our%73\n"):
        assert_linear(secrets.hide, lambda size, text=text: Text(text * size), openapi_secrets, sizes=(32, 64, 128))  # type: ignore[misc]


BASIC: Final = base64.b64encode(b"alice:hunter2").decode()
SENT: Final[Mapping[str, tuple[dict[str, str], set[str]]]] = {
    "a scheme": ({"Authorization": "Bearer abc.def"}, {"Bearer abc.def", "abc.def"}),
    "a password": ({"Authorization": f"Basic {BASIC}"}, {f"Basic {BASIC}", BASIC, "alice:hunter2", "hunter2"}),
    "a key as the user": (
        {"Authorization": "Basic c2tfbGl2ZV8xMjM6"}, {"Basic c2tfbGl2ZV8xMjM6", "c2tfbGl2ZV8xMjM6", "sk_live_123:", "sk_live_123"},
    ),
    "no base64": ({"Authorization": "Basic !"}, {"Basic !"}),
    "cookies": ({"Cookie": "sid=abcd; theme=dark; lang=en; v=12345678; mine=12345678"}, {"abcd", "12345678"}),
    "no secrets": (
        {"Accept": "application/json", "User-Agent": "some-agent/1.0", "Host": "api.example.com", "X-Mine": "my-argument",
         "X-GitHub-Api-Version": "2022-11-28", "X-Env": "prod", "Content-Type": "application/json", "X-Key": "a", "E": ""},
        set(),
    ),
    "others": ({"X-Tenant": "3f7a-90c1", "X-Key": "four"}, {"3f7a-90c1", "four"}),
    "parameters": (
        {"Authorization": 'Token token="Zq8r4tokn", name=ann'}, {'Token token="Zq8r4tokn", name=ann', 'token="Zq8r4tokn"', "Zq8r4tokn", "name=ann"},
    ),
    "parameters of another scheme": (
        {"Authorization": "AWS4 Id=AKIA7X9Q/2026/us-east-1,Signature=9f8e7d6c"},
        {"AWS4 Id=AKIA7X9Q/2026/us-east-1,Signature=9f8e7d6c", "Id=AKIA7X9Q/2026/us-east-1", "AKIA7X9Q/2026/us-east-1",
         "Signature=9f8e7d6c", "9f8e7d6c", "AWS4"},
    ),
    "parameters in a cookie": ({"Cookie": "a=user=ann&token=Zq8r4tokn"}, {"user=ann&token=Zq8r4tokn", "token=Zq8r4tokn", "Zq8r4tokn", "user=ann"}),
    "a key within words": ({"X-App": "billing Zq8r4tokn"}, {"billing Zq8r4tokn", "Zq8r4tokn"}),
    "words": (
        {"X-Environment": "production", "X-Client": "Python automation service", "X-Account-Id": "12345678",
         "X-Region": "us-east-1.eu-west-2", "Origin": "https://a1b2.example.com", "X-Requested-With": "XMLHttpRequest",
         "X-Date": "2026-11-28", "X-Mail": "ann@example.com"},
        set(),
    ),
    "names with parts of those of credentials": (
        {"X-Shipping-Method": "express", "X-Locale-Code": "en-US", "X-Design": "green", "X-Monkeys": "many", "Cookie": "sidebar=open"}, set(),
    ),
    "names of credentials": (
        {"X-Pin": "4711", "My-Sid": "abcd", "ApiKey": "efgh", "X-Access-Code": "ijkl", "X-Passcode": "mnop", "Cookie": "PHPSESSID=qrst"},
        {"4711", "abcd", "efgh", "ijkl", "mnop", "qrst"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SENT)
def test_what_of_a_request_is_secret(case: str) -> None:
    headers, expected = SENT[case]
    given = {"x-mine", "mine=12345678"} if case == "no secrets" else {"mine=12345678"}
    assert {*openapi_secrets.credentials(headers, given)} == expected


SOURCES: Final[Mapping[str, Callable[[str], tuple[str, dict[str, Any], dict[str, str]]]]] = {
    # what makes the URL, the options of the session and the headers
    "headers": lambda url: (url, {}, {"X-Key": "key-of-ours"}),
    "default headers of the session": lambda url: (url, {"headers": {"X-Key": "key-of-ours"}}, {}),
    "cookies of the session": lambda url: (url, {"cookies": {"a": "key-of-ours"}}, {}),
    "auth of the session": lambda url: (url, {"auth": aiohttp.BasicAuth("alice", "key-of-ours")}, {}),
    "the URL": lambda url: (url.replace("://", "://alice:key-of-ours@"), {}, {}),
}
KINDS: Final = ("text/plain", "application/json", "application/problem+json", "text/html")


@each_once
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", SOURCES)
def test_the_model_reads_no_credentials(source: str, kind: str, status: int) -> None:
    """They come from the headers or the session of the caller, and are in the body in any spelling."""

    async def main() -> None:
        spelled = [SPELLINGS[how]("key-of-ours") for how in SPELLINGS if "JSON" not in how]
        told: Any = {"a": spelled, **dict.fromkeys(spelled, "x"), "number": 12}
        text = json.dumps(told) if "json" in kind else "\n".join(["begin", *spelled, "end"])

        async def answer(request: web.Request) -> web.Response:
            sent = repr(request.headers) + repr(request.cookies)
            assert "key-of-ours" in sent or base64.b64encode(b"alice:key-of-ours").decode() in sent
            return web.Response(text=text, content_type=kind, status=status)

        async with served(answer) as url:
            base, options, headers = SOURCES[source](url)
            jar = aiohttp.CookieJar(unsafe=True)
            async with aiohttp.ClientSession(cookie_jar=jar, **options) as session:
                app = mcprev.App.from_openapi(
                    document({"/x": {"get": {}}}), base_url=base, session=session, headers=headers
                )
                async with mcprev.connect(app) as client:
                    result = await client.call_tool("get_x", {})
        wire = json.dumps(result.to_wire(), ensure_ascii=False)
        assert "***" in wire
        assert bool(result.is_error) is (status >= 400)
        if "json" in kind and status < 400:
            assert result.data["number"] == 12
        for each in spelled:
            assert max((len(part) for part in re.split(r"\s", each) if part in wire), default=0) < 4
        assert not Secrets(["key-of-ours"])._has(wire)  # pyright: ignore[reportPrivateUsage]

    run(main())


def test_a_secret_that_json_holds_twice_or_as_a_number_is_hidden() -> None:
    async def main() -> None:
        bodies = {
            '{"a": "key-of-ours", "a": 1}': {"a": 1},
            '{"a": 1234567890, "b": 1.5}': {"a": "***", "b": 1.5},
            '{"a": true, "b": null, "c": "\\u006bey-of-ours"}': {"a": True, "b": None, "c": "***"},
        }

        async def answer(request: web.Request) -> web.Response:
            return web.Response(text=[*bodies][int(request.query["n"])], content_type="application/json")

        async with served(answer) as url:
            given = document({"/x": {"get": {"parameters": [parameter("n")]}}})
            headers = {"X-Key": "key-of-ours", "X-Token": "1234567890"}
            app = mcprev.App.from_openapi(given, base_url=url, headers=headers)
            async with mcprev.connect(app) as client:
                for number, expected in enumerate(bodies.values()):
                    result = await client.call_tool("get_x", {"n": str(number)})
                    assert result.structured_content == expected

    run(main())


@pytest.mark.parametrize("text", ["{", '{"key-of-ours": 3}'])
def test_no_error_about_an_answer_tells_a_secret(text: str) -> None:
    async def main() -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.Response(body=text.encode(), headers={"Content-Type": "application/key-of-ours+json"})

        output = {"type": "object", "additionalProperties": {"type": "string"}}
        async with served(answer) as url:
            given = document({"/x": {"get": {"responses": {"200": body(output)}}}})
            app = mcprev.App.from_openapi(given, base_url=url, headers={"X-Key": "key-of-ours"})
            async with mcprev.connect(app) as client:
                result = await client.call_tool("get_x", {})
                assert result.is_error
                assert "key-of-ours" not in json.dumps(result.to_wire())

    run(main())


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("image/key-of-ours", "GET /x returned image/***, which is not text"),
        ("text/plain", "GET /x returned status 500: a ***"),
    ],
)
def test_texts_of_errors_are_without_secrets(kind: str, expected: str) -> None:
    async def main() -> None:
        async def answer(request: web.Request) -> web.Response:
            status = 500 if kind == "text/plain" else 200
            content = b"a key-of-ours" if status == 500 else b"\xff"
            return web.Response(body=content, headers={"Content-Type": kind}, status=status)

        async with served(answer) as url:
            app = mcprev.App.from_openapi(
                document({"/x": {"get": {}}}), base_url=url, headers={"X-Key": "key-of-ours"}
            )
            async with mcprev.connect(app) as client:
                assert text_of(await client.call_tool("get_x", {})) == expected

    run(main())


def test_a_secret_that_is_divided_between_strings_of_json_is_hidden() -> None:
    async def main() -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.json_response(["key-of", "-ours"])

        async with served(answer) as url:
            app = mcprev.App.from_openapi(
                document({"/x": {"get": {}}}), base_url=url, headers={"X-Key": "key-of-ours"}
            )
            async with mcprev.connect(app) as client:
                result = await client.call_tool("get_x", {})
                assert text_of(result) == "GET /x returned invalid JSON"

    run(main())


def test_what_an_argument_sets_is_no_secret() -> None:
    parameters = [parameter("X-H", "header"), parameter("c", "cookie")]
    found = answer_of(call({"parameters": parameters}, {"X-H": "long-enough", "c": "long-enough-too"}))
    assert found["headers"] == {"X-H": "long-enough", "Cookie": "c=long-enough-too"}


@pytest.mark.parametrize("end", ["", "?", " ", "{", "/?"])
@req("SEC-6", everywhere=True)
def test_the_steps_of_reading_the_url_of_an_api_grow_with_it(end: str) -> None:
    start = time.process_time()
    with contextlib.suppress(ValueError):
        openapi_calls.Backend("http://" + "a" * 2_000_000 + end, None, {})
    assert time.process_time() - start < 5


def test_a_failed_call_has_the_status_and_an_excerpt_without_secrets() -> None:
    result = call({}, {}, "/fail", method="get")
    assert result.is_error
    assert text_of(result).startswith("GET /fail returned status 418: no: *** ***yyy")
    assert len(text_of(result)) == MAX_EXCERPT + len("GET /fail returned status 418: ")


def test_an_answer_that_does_not_fit_and_arguments_that_do_not_are_errors() -> None:
    output = {"type": "object", "properties": {"target": NUMBER}}
    result = call({"responses": {"200": body(output)}}, {})
    assert (
        text_of(result)
        == "POST /x returned a response that its document does not allow: response.target is not of type integer. The request succeeded, so do "
        'not repeat it; its response follows.{"target": "/v1/x", "method": "POST", "headers": {}}'
    )
    result = call({"parameters": [parameter("q", schema=NUMBER)]}, {"q": "a"})
    assert result.is_error
    assert "arguments.q is not of type integer" in text_of(result)


def test_an_api_that_cannot_be_reached_is_an_error_without_secrets() -> None:
    app = mcprev.App.from_openapi(
        document({"/x": {"get": {}}}), base_url="http://127.0.0.1:1", headers=SECRETS
    )

    async def main() -> None:
        async with mcprev.connect(app) as client:
            result = await client.call_tool("get_x", {})
            assert "the API cannot be reached" in text_of(result)
            assert "of-ours" not in text_of(result)

    run(main())


BACKTRACKS: Final = {"type": "string", "pattern": r"^(?=a)(a+)+$"}
"""A pattern that takes Python's `re` twice as long for each further letter."""
NOT_CHECKED: Final[dict[str, tuple[Any, Any]]] = {
    "an argument": ({"parameters": [parameter("q", schema=BACKTRACKS)]}, {"q": "aaa!"}),
    "in a list of choices": ({"parameters": [parameter("q", schema={"anyOf": [BACKTRACKS]})]}, {"q": "aaa!"}),
    "names of members": (
        {"requestBody": body({"type": "object", "propertyNames": BACKTRACKS})}, {"body": {"aaa!": 1}},
    ),
    "members by pattern": (
        {"requestBody": body({"type": "object", "patternProperties": {"^(a+)+$": TEXT}, "additionalProperties": False})},
        {"body": {"aaa!": 1}},
    ),
    "an answer": ({"responses": {"200": body({"type": "object", "properties": {"target": BACKTRACKS}})}}, {}),
    "members of an answer by pattern": (
        {"responses": {"200": body({"type": "object", "patternProperties": {"^(t+a)+$": NUMBER}})}}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NOT_CHECKED)
def test_no_pattern_of_a_document_is_matched_by_backtracking(case: str) -> None:
    """A client, or the API, would stop the server with a text of 40 letters. The API checks its arguments itself."""
    operation, arguments = NOT_CHECKED[case]
    assert answer_of(call(operation, arguments))["method"] == "POST"
    assert "outputSchema" not in tool_of(operation)
    listed = json.dumps(tool_of(operation)["inputSchema"])
    assert ("a+" in listed) == bool(arguments), "the model still reads it"


def test_patterns_that_take_linear_time_are_checked() -> None:
    for expression in ("^(a+)+$", "^[a-z]{3}$"):
        result = call({"parameters": [parameter("q", schema={**TEXT, "pattern": expression})]}, {"q": "aaa!"})
        assert "arguments.q does not match" in text_of(result)


def test_what_an_api_answers_writes_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.json_response({"a\nINFO forged\x1b[2J": "x\r\n\x1b[2J", "b": "\u202e\n"})

        output = {"type": "object", "additionalProperties": {"type": "string", "enum": ["\x1b]0;y\x07"]}}
        async with served(answer) as url:
            app = mcprev.App.from_openapi(with_operation({"responses": {"200": body(output)}}), base_url=url)
            async with mcprev.connect(app) as client:
                assert (await client.call_tool("get_a", {})).is_error

    run(main())
    (record,) = [each for each in caplog.records if each.name == "mcprev.server"]
    assert "forged" in record.getMessage()
    assert record.getMessage().isprintable()
    caplog.clear()


def test_schemas_of_one_name_in_different_places_get_names_of_their_own() -> None:
    """Whatever the names are that they would get."""
    kinds = ["string", "number", "boolean", "integer", "null"]
    refs = ["schemas/A_2", "schemas/A", "x/A", "x/A_2", "y/A_1"]
    components: dict[str, Any] = {"schemas": {}, "x": {}, "y": {}}
    for ref, kind in zip(refs, kinds, strict=True):
        place, _, name = ref.partition("/")
        components[place][name] = {"type": kind}
    parameters = [parameter(f"p{at}", schema={"$ref": f"#/components/{ref}"}) for at, ref in enumerate(refs)]
    found = tool_of({"parameters": parameters}, components=components)["inputSchema"]
    for at, kind in enumerate(kinds):
        name = found["properties"][f"p{at}"]["$ref"].removeprefix("#/$defs/")
        assert found["$defs"][name] == {"type": kind}


@pytest.mark.slow
def test_the_steps_of_naming_grow_with_the_document() -> None:
    def document_of(size: int) -> Any:
        schemas = {f"{at}/A": TEXT for at in range(size)}
        refs = [{"$ref": f"#/components/schemas/{at}~1A"} for at in range(size)]
        one = {"parameters": [parameter(f"p{at}", schema=ref) for at, ref in enumerate(refs)]}
        same = {f"/x{at}": {"get": {"operationId": "a" * 200 + str(at)}} for at in range(size)}
        return document({"/all": {"get": one}, **same}, components={"schemas": schemas})

    def work(given: Any) -> None:
        names = [name for _, name, _ in openapi.Api(given, BASE).entries()]
        assert len(set(names)) == len(names) > 15
        assert max(map(len, names)) <= 128

    for module in (openapi, openapi_document):
        assert_linear(work, document_of, module, sizes=(32, 64, 128))


# -- documents that cannot be used -------------------------------------------------------------------------


def with_operation(operation: Any, path: str = "/a") -> dict[str, Any]:
    return document({path: {"get": operation}})


DEEP: Final[dict[str, Any]] = {
    "a": {"$ref": "#/components/parameters/b"},
    "b": {"$ref": "#/components/parameters/a"},
}
BAD: Final[Mapping[str, tuple[Any, str]]] = {
    "swagger": ({"swagger": "2.0"}, "#/openapi: is None; convert the document"),
    "no operations": (document({}), "#/paths: has no operation"),
    "paths": (document([]), "#/paths: is not an object"),  # type: ignore[arg-type]
    "path": (with_operation({}, "a"), "#/paths/a: is not the path of a URL"),
    "query in a path": (with_operation({}, "/a?b=c"), "#/paths/~1a?b=c: is not the path of a URL"),
    "operation": (with_operation(3), "#/paths/~1a/get: is not an object"),
    "parameters": (with_operation({"parameters": {}}), "#/paths/~1a/get/parameters: is not an array"),
    "place": (with_operation({"parameters": [parameter("a", "body")]}), "#/paths/~1a/get/parameters/0/in: is 'body'"),
    "style": (
        with_operation({"parameters": [parameter("a", style="matrix")]}), "#/paths/~1a/get/parameters/0/style: is 'matrix'",
    ),
    "header": (with_operation({"parameters": [parameter("a b", "header")]}), "parameters/0/name: 'a b' is not a valid header name"),
    "variable": (with_operation({}, "/{a}"), "#/paths/~1{a}/get: has 'a' in the path or"),
    "external": (
        with_operation({"parameters": [{"$ref": "other.json#/a"}]}),
        "#/paths/~1a/get/parameters/0/$ref: refers to 'other.json#/a' outside",
    ),
    "external schema": (
        with_operation({"parameters": [parameter("a", schema={"$ref": "http://x/y"})]}),
        "#/paths/~1a/get/parameters/0/schema/$ref: refers to 'http://x/y' outside",
    ),
    "missing": (with_operation({"parameters": [{"$ref": "#/a"}]}), "parameters/0/$ref: refers to '#/a', which does not exist"),
    "circle": (
        document({"/a": {"get": {"parameters": [DEEP["a"]]}}}, components={"parameters": DEEP}), "refers to itself",
    ),
    "body": (
        with_operation({"requestBody": {"content": {"application/xml": {}}}}),
        "#/paths/~1a/get/requestBody/content: has no application/json, application/x-www-form-urlencoded or multipart/form-data",
    ),
    "schema": (with_operation({"parameters": [parameter("a", schema={"type": "text"})]}), "#/paths/~1a/get: has a schema that"),
    "required": (
        with_operation({"parameters": [parameter("a", schema={"properties": {"b": {"readOnly": True}}, "required": [["b"]]})]}),
        "#/paths/~1a/get/parameters/0/schema/required/0: is not a string",
    ),
    "pattern": (
        with_operation({"parameters": [parameter("a", schema={"type": "string", "pattern": "(["})]}),
        "#/paths/~1a/get: has a schema that cannot be used: the pattern '([' is not a valid regular expression",
    ),
    "servers": (with_operation({"servers": [{"url": "http://other"}]}), "#/paths/~1a/get: has servers of its own"),
    "a path with lines": (with_operation({}, "/a\r\n\x1b[2J"), "#/paths/~1a   [2J: is not the path of a URL"),
    "a reference with lines": (
        with_operation({"parameters": [{"$ref": "#/a\n\x1b[2J"}]}), "refers to '#/a  [2J', which does not exist",
    ),
    "a long place": (with_operation(3, "/" + "a" * 9000), "#/paths/~1aa"),
    "not JSON": (document({"/a": {"get": {"x": float("nan")}}}), "the document is not JSON"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_document_that_cannot_be_used_is_refused_with_its_place(name: str) -> None:
    given, why = BAD[name]
    with pytest.raises(ValueError, match=re.escape(why)) as caught:
        mcprev.App.from_openapi({"servers": [{"url": BASE}], **given})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 500


@pytest.mark.parametrize("url", ["", "/v1", "ftp://x", "http://x?a=b", "https://{host}/v1"])
def test_the_api_has_an_absolute_url(url: str) -> None:
    with pytest.raises(ValueError, match="no absolute http or https URL"):
        mcprev.App.from_openapi(document({"/a": {"get": {}}}, servers=[{"url": url}]))


@pytest.mark.parametrize("given", ["headers", "session", "user"])
def test_a_document_does_not_say_who_gets_credentials(given: str) -> None:
    url = "https://api.example@evil.example/v1" if given == "user" else "https://evil.example"
    paths = {"/a": {"get": {"operationId": "a", "responses": OK}}}

    async def main() -> None:
        async with aiohttp.ClientSession() as session:
            several: dict[str, Any] = {
                "headers": {"headers": {"authorization": "Bearer of-ours-1234"}},
                "session": {"session": session},
            }
            options = several.get(given, {})
            found = document(paths, servers=[{"url": url}])
            with pytest.raises(ValueError, match=r"^#/servers.* pass (it|the URL) as `base_url`"):
                mcprev.App.from_openapi(found, **options)
            mcprev.App.from_openapi(found, base_url=BASE, **options)
            plain = document(paths, servers=[{"url": "https://evil.example/@v1"}])
            mcprev.App.from_openapi(plain, headers={"User-Agent": "shop", "X-Env": "production"})

    run(main())


def test_a_header_with_a_line_break_is_refused_without_its_value() -> None:
    with pytest.raises(ValueError, match="'X-Key'") as caught:
        mcprev.App.from_openapi(with_operation({}), base_url=BASE, headers={"X-Key": "secret\n"})
    assert "secret" not in str(caught.value)


def test_files_of_json_and_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(with_operation({})), encoding="utf-8")
    (tmp_path / "a.yaml").write_text(
        "openapi: 3.0.0\ninfo: {title: t, version: '1'}\npaths: {/a: {get: {responses: {200: {description: d}}}}}\n",
        encoding="utf-8",
    )
    (tmp_path / "b.yaml").write_text("a: &x [1]\nb: *x\n", encoding="utf-8")
    for name in ("a.json", "a.yaml"):
        assert [tool["name"] for tool in tools_of(tmp_path / name)] == ["get_a"]
    with pytest.raises(ValueError, match=r"b\.yaml cannot be read: it has YAML aliases"):
        tools_of(str(tmp_path / "b.yaml"))


NEGATED: Final = document(
    {"/a": {"get": {"parameters": [parameter("a", schema={"type": "string", "not": {"const": "b"}})]}}}
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "given", "named"),
    [
        ("aiohttp", {}, "mcprev[http]"),
        ("yaml", "a.yaml", "YAML requires PyYAML; install pyyaml, or pass the document as JSON"),
        ("jsonschema", NEGATED, "mcprev[schema]"),
    ],
)
def test_without_a_library_what_needs_it_is_refused_and_says_so(
    library: str, given: Any, named: str, tmp_path: Path
) -> None:
    (tmp_path / "a.yaml").write_text("openapi: 3.0.0\n", encoding="utf-8")
    code = (
        f"import sys; sys.modules[{library!r}] = sys.modules[{library + '.validators'!r}] = None; import mcprev; "
        f"mcprev.App.from_openapi({given!r}, base_url={BASE!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    assert named in done.stderr
