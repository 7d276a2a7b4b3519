"""Operations as resources, output schemas of all types, and FastAPI apps in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import aiohttp
import pytest
from fastapi import FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse, RedirectResponse, StreamingResponse
from pydantic import BaseModel
from yarl import URL

import mcprev
from helpers.running import run
from mcprev import OpenApiRoute as Route
from mcprev.app.openapi import calls as openapi_calls
from mcprev.app.openapi.asgi import AsgiSession, OpenApiApp
from mcprev.app.openapi.calls import MAX_BODY
from mcprev.revisions import DEFAULT

REVISIONS: Final = [revision.name for revision in DEFAULT]
EVENTS: Final[list[str]] = []


class Item(BaseModel):
    id: int
    name: str


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[dict[str, str], None]:
    EVENTS.append("start")
    yield {"kept": "of the lifespan"}
    EVENTS.append("stop")


def web() -> FastAPI:  # noqa: C901 - many endpoints
    app = FastAPI(title="shop", version="3", lifespan=lifespan)

    @app.get("/items", tags=["read"])
    async def items() -> list[Item]:
        return [Item(id=1, name="hat")]

    @app.get("/items/{item_id}", tags=["read"])
    async def item(item_id: int) -> Item:
        if item_id != 1:
            raise HTTPException(404, "no such item")
        return Item(id=item_id, name="hat")

    @app.post("/items")
    async def add(item: Item) -> int:
        return item.id

    @app.get("/search")
    def search(q: str, request: Request) -> str:
        return f"{q} {request.state.kept} {request.client} {request.url}"

    @app.get("/secret", tags=["read"])
    async def secret(authorization: str = Header()) -> str:
        return authorization

    @app.get("/text", tags=["read"], response_class=PlainTextResponse)
    async def text() -> Response:
        return Response("plain", media_type="text/plain")

    @app.get("/wrong", responses={200: {"content": {"application/json": {"schema": {"type": "array"}}}}})
    async def wrong() -> Response:
        return Response("{}", media_type="application/json")

    @app.get("/fails")
    async def fails() -> None:
        raise RuntimeError("inside")

    @app.get("/huge")
    async def huge() -> Response:
        return Response("x" * (MAX_BODY + 1))

    @app.get("/slow")
    async def slow() -> None:
        await asyncio.Event().wait()

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        return StreamingResponse(iter(["a", "b"]), media_type="text/plain")

    @app.get("/away")
    async def away() -> RedirectResponse:
        return RedirectResponse("/text")

    @app.get("/out")
    async def out() -> RedirectResponse:
        return RedirectResponse("http://other.example/")

    return app


ROUTES: Final = [
    Route("exclude", path="/(slow|huge)"),
    Route("exclude", methods=["post"]),
    Route("resource", methods=["GET"], tags=["read"]),
]


def test_operations_become_resources_templates_and_tools_by_rules() -> None:
    app = mcprev.App.from_fastapi(web(), routes=ROUTES, headers={"Authorization": "Bearer of-ours-1234"})

    async def main() -> None:
        async with mcprev.connect(app) as client:
            tools = [tool.name async for tool in client.tools()]
            assert [name.partition("_")[0] for name in tools] == [
                "search", "wrong", "fails", "stream", "away", "out",
            ]  # fmt: skip
            uris = [each.uri for each in (await client.list_resources()).resources]
            assert uris == ["api://items", "api://secret", "api://text"]
            found = await client.list_resource_templates()
            assert [each.uri_template for each in found.resource_templates] == ["api://items/{item_id}"]

            async def read(uri: str) -> tuple[Any, Any]:
                [part] = (await client.read_resource(uri)).contents
                wire = part.to_wire()
                return wire["text"], wire.get("mimeType")

            assert await read("api://items") == ('[{"id":1,"name":"hat"}]', "application/json")
            assert (await read("api://items/1"))[0] == '{"id":1,"name":"hat"}'
            assert await read("api://text") == ("plain", "text/plain")
            assert "of-ours" not in (await read("api://secret"))[0]
            for uri in ("api://items/2", "api://items/x", "api://items/1.5", "api://items/..", "api://slow"):
                with pytest.raises(mcprev.ResourceNotFound):
                    await client.read_resource(uri)

    run(main())


def test_what_cannot_be_a_resource_stays_a_tool() -> None:
    app = mcprev.App.from_fastapi(web(), routes=[Route("resource")])
    assert {name.partition("_")[0] for name in app.registry.tools} == {"search", "add"}
    assert {*app.registry.templates} == {"api://items/{item_id}"}


def test_little_of_an_endless_answer_is_kept() -> None:
    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        for _ in range(100):
            await send({"type": "http.response.body", "body": b"x" * 10, "more_body": True})
        await send({"type": "http.response.body"})

    async def main() -> None:
        timeout = aiohttp.ClientTimeout(total=5)
        session = AsgiSession(cast("OpenApiApp", endless), 50)
        async with session.request(
            "GET", URL("http://x/"), headers={}, data=None, timeout=timeout
        ) as response:
            assert len([part async for part in response.content.iter_chunked(10)]) == 6

    run(main())


@pytest.mark.parametrize("revision", REVISIONS)
def test_answers_of_all_types_are_structured_as_the_document_says(revision: str) -> None:
    EVENTS.clear()
    app = mcprev.App.from_fastapi(
        web(), select=lambda _method, path, _operation: path in {"/items", "/items/{item_id}", "/wrong"}
    )

    async def main() -> None:
        async with mcprev.connect(app, mode=revision) as client:
            tools = {tool.name.partition("_items")[0]: tool async for tool in client.tools()}
            names = {short: tool.name for short, tool in tools.items()}
            assert await client.call_tool(names["items"], as_=list[Item]) == [Item(id=1, name="hat")]
            assert await client.call_tool(names["add"], {"id": 4, "name": "x"}, as_=int) == 4
            assert await client.call_tool(names["item"], {"item_id": 1}, as_=Item) == Item(id=1, name="hat")
            result = await client.call_tool(names["item"], {"item_id": 2})
            assert (result.is_error, "404" in result.text) == (True, True)
            [wrong] = [name for name in names.values() if name.startswith("wrong")]
            result = await client.call_tool(wrong)
            assert result.is_error
            assert "that its document does not allow" in result.text
            assert "{}" in result.text

    run(main())
    assert EVENTS == ["start", "stop"]


def test_answers_are_as_they_are_without_output_schemas() -> None:
    app = mcprev.App.from_fastapi(web(), output_schemas=False)

    async def main() -> None:
        async with mcprev.connect(app) as client:
            tools = [tool async for tool in client.tools()]
            assert all(tool.output_schema is None for tool in tools)
            [wrong] = [tool.name for tool in tools if tool.name.startswith("wrong")]
            result = await client.call_tool(wrong)
            assert (result.is_error or False, result.structured_content) == (False, {})

    run(main())


ANSWERS: Final[Mapping[str, tuple[bool, str]]] = {
    "search": (False, "a b&c of the lifespan None http://shop.example/search?q=a%20b%26c"),
    "fails": (True, "GET /fails returned status 500: Internal Server Error"),
    "huge": (True, f"GET /huge returned more than {MAX_BODY} bytes; request less"),
    "slow": (True, "GET /slow did not respond within 0.2 s; try again later"),
    "stream": (False, "ab"),
    "away": (False, "plain"),
    "out": (True, "GET /out redirects to another host, which is not followed"),
}


def test_an_app_in_the_same_process_answers_as_over_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    timeout = aiohttp.ClientTimeout(total=0.2)
    monkeypatch.setattr(openapi_calls, "TIMEOUT", timeout)
    app = mcprev.App.from_fastapi(web(), base_url="http://shop.example")

    async def main() -> None:
        async with mcprev.connect(app) as client:
            names = {tool.name.partition("_")[0]: tool.name async for tool in client.tools()}
            for short, expected in ANSWERS.items():
                result = await client.call_tool(names[short], {"q": "a b&c"} if short == "search" else {})
                text = result.text.strip('"')
                assert (result.is_error or False, text) == expected

    run(main())


def test_the_lifespan_of_an_app_that_is_served_elsewhere_does_not_run_again() -> None:
    async def main(app: mcprev.App) -> None:
        async with mcprev.connect(app) as client:
            await client.list_tools()

    EVENTS.clear()
    run(main(mcprev.App.from_fastapi(web(), web_lifespan=False)))
    assert EVENTS == []


def test_an_app_that_fails_to_start_serves_nothing() -> None:
    @asynccontextmanager
    async def broken(_: FastAPI) -> AsyncGenerator[None, None]:
        raise OSError("no database")
        yield

    async def main() -> None:
        failing = FastAPI(lifespan=broken)
        failing.get("/x")(lambda: 1)
        async with mcprev.connect(mcprev.App.from_fastapi(failing)):
            pass

    with pytest.raises(Exception, match="startup of the app failed"):
        run(main())


WRONG: Final[Mapping[str, tuple[Callable[[], object], type[Exception], str]]] = {
    "a target": (lambda: Route("prompt"), ValueError, "use tool, resource or exclude"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    "a path": (lambda: Route("tool", path="("), ValueError, "not a regular expression"),
    "methods": (lambda: Route("tool", methods="GET"), TypeError, "pass several in a list"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_rule_is_refused(case: str) -> None:
    make, kind, why = WRONG[case]
    with pytest.raises(kind, match=why):
        make()


def test_a_rule_is_about_the_whole_path_and_all_its_tags() -> None:
    rule = Route("exclude", path="/items", tags=["read", "old"])
    assert rule.matches("get", "/items", ["old", "read", "more"], readable=True)
    assert not rule.matches("get", "/items/1", ["old", "read"], readable=True)
    assert not rule.matches("get", "/items", ["read"], readable=True)
    assert not rule.matches("get", "/my/items", ["old", "read"], readable=True)
    resource = Route("resource", methods=["GET"])
    assert resource.matches("get", "/x", [], readable=True)
    assert not resource.matches("get", "/x", [], readable=False)
    assert not resource.matches("post", "/x", [], readable=True)


def test_a_resource_that_is_gone_does_not_exist_and_a_path_may_have_several_parts() -> None:
    web = FastAPI(title="files", version="1")

    @web.get("/files/{path:path}")
    async def file(path: str) -> str:
        if path == "old":
            raise HTTPException(410, "it is gone")
        return path

    document = web.openapi()
    operation = document["paths"].pop("/files/{path}")
    operation["get"]["parameters"][0]["allowReserved"] = True
    document["paths"]["/files/{path}"] = operation
    app = mcprev.App.from_fastapi(web, routes=[Route("resource")])

    async def main() -> None:
        async with mcprev.connect(app) as client:
            [template] = (await client.list_resource_templates()).resource_templates
            assert template.uri_template == "api://files/{+path}"
            found = await client.read_resource("api://files/a/b")
            assert found.contents[0].to_wire()["text"] == '"a/b"'
            with pytest.raises(mcprev.ResourceNotFound):
                await client.read_resource("api://files/old")

    run(main())
