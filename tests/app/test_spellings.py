"""The spellings of one URI are one resource: served alike, and seen by everything that decides in one spelling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

import mcprev
from fuzz.fuzzing import each_once
from helpers.asgi_bridge import Client, Exchange, modern
from helpers.named import rows_since
from helpers.requirements import E
from helpers.running import run
from mcprev.app.uri_templates import Template
from mcprev.middleware import Audit, Caching
from mcprev.protocol.subscriptions import MAX_URI
from mcprev.protocol.uris import MAX_LENGTH, canonical_message, comparable, spelled_as_usual, spellings
from mcprev.revisions import DEFAULT, Revision
from mcprev.transforms import resources_as_tools
from mcprev.wire.headers import encode_value
from mcprev.wire.jsonrpc import parse

ROWS: Final = pytest.mark.parametrize("row", DEFAULT, ids=str)
FIXED: Final = "notes://caf\u00e9/all"
ALIKE: Final = {
    FIXED: (
        FIXED,
        "notes://caf%C3%A9/all",
        "notes://caf%c3%a9/all",
        "NOTES://caf%C3%A9/%61ll",
        "notes://CAF%C3%A9/al%6c",
    ),
    "books://secret": (
        "books://secret",
        "books://%73ecret",
        "BOOKS://secret",
        "Books://s%65cre%74",
    ),
    "paths://library/private/x": (
        "paths://library/private/x",
        "paths://library/private%2Fx",
        "paths://library/private%2fx",
        "paths://LIBRARY/private/%78",
        "PATHS://libr%61ry/%70rivate/x",
    ),
    "words://s%C3%A9same": ("words://s\u00e9same", "words://s%c3%a9same", "WORDS://%73%C3%A9same"),
}
"""By canonical URI: its spellings."""
EVERY: Final = [(canonical, spelled) for canonical, several in ALIKE.items() for spelled in several]


def library(read: list[str] | None = None, **options: Any) -> mcprev.App:
    app = mcprev.App("library", "1", **options)

    def took(text: str) -> str:
        if read is not None:
            read.append(text)
        return f"read {text}"

    @app.resource(FIXED)
    async def notes() -> str:
        return took("notes")

    @app.resource("books://{title}")
    async def book(title: str) -> str:
        return took(title)

    @app.resource("paths://library/{+path}")
    async def path(path: str) -> str:
        return took(path)

    @app.resource("words://{word}")
    async def word(word: str) -> str:
        return took(word)

    return app


VALUES: Final = {
    FIXED: "notes", "books://secret": "secret", "paths://library/private/x": "private/x",
    "words://s%C3%A9same": "s\u00e9same",
}  # fmt: skip


@ROWS
@each_once
@pytest.mark.parametrize(("canonical", "spelled"), EVERY)
def test_each_spelling_is_read_and_middleware_sees_one(canonical: str, spelled: str, row: Revision) -> None:
    seen: list[str] = []
    lines: list[Mapping[str, Any]] = []

    async def sees(call: mcprev.HandlerCall, call_next: mcprev.CallNext) -> mcprev.HandlerResult:
        seen.append(getattr(call.params, "uri", ""))
        return await call_next(call)

    app = library(middleware=[sees, Audit(lines.append)])

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            found = await client.read_resource(spelled)
            assert [part.to_wire()["text"] for part in found.contents] == [f"read {VALUES[canonical]}"]

    run(main())
    assert seen == [canonical]
    assert [line["name"] for line in lines] == [canonical, canonical]


def only_admins(asked: str) -> Callable[[str, Mapping[str, Any]], str | None]:
    def needs(method: str, params: Mapping[str, Any]) -> str | None:
        named = [params.get("uri"), *params.get("notifications", {}).get("resourceSubscriptions", ())]
        return "admin" if method.startswith(("resources/", "subscriptions/")) and asked in named else None

    return needs


def reading(client: Client, row: Revision, uri: str) -> Exchange:
    if row.handshake:
        return client.request("resources/read", {"uri": uri})
    return modern(client, row, "resources/read", {"uri": uri}, headers={"mcp-name": encode_value(uri)})


TOKENS: Final[Any] = {"ann": {"subject": "ann", "scopes": "admin"}, "bob": "bob"}


@ROWS
@each_once
@pytest.mark.parametrize(("canonical", "spelled"), EVERY)
@pytest.mark.parametrize("way", ["", "mounted", "as a tool"])
def test_scopes_are_needed_for_each_spelling(canonical: str, spelled: str, way: str, row: Revision) -> None:
    read: list[str] = []

    async def main() -> None:
        app, asked, uri = library(read), canonical, spelled
        if way == "mounted":
            inner, app = app, mcprev.App("outer", "1")
            app.mount(inner, "in")
            # The prefix is the host now, so that the case of what was the host counts.
            asked, uri = (each.replace("://", "://in/", 1) for each in (canonical, spelled))
            uri = uri.replace("/LIBRARY", "/library").replace("/CAF", "/caf")
        if way == "as a tool":
            resources_as_tools(app)
        served = app.asgi(auth=mcprev.StaticTokens(TOKENS, needs=only_admins(asked)))
        for user in TOKENS:
            client = Client(served)
            client.session = {"authorization": f"Bearer {user}"}
            opened = await client.open(row)
            if way == "as a tool":
                answer = await opened.call("read_resource", {"uri": uri}).done()
            else:
                answer = await reading(opened, row, uri).done()
            if user == "bob":
                assert b"too few scopes" in answer.body
            assert read == ([] if user == "bob" and not read else [VALUES[canonical]])
            if not way and user == "bob" and row.handshake:
                body = (await opened.request("resources/subscribe", {"uri": uri}).done()).body
                assert b"too few scopes" in body or b"Method not found" in body
        await served.aclose()

    run(main())


@pytest.mark.parametrize(
    "asked", ["books://Secret", "books://secret", "books://caf\u00e9", "books://caf%C3%A9"]
)
@ROWS
def test_a_policy_may_be_written_in_any_spelling(asked: str, row: Revision) -> None:
    """The host of a template may be a value, whose case the function gets; a policy is asked about both."""
    others = {
        "books://Secret": ["books://%53ecret"],
        "books://secret": ["books://SECRET", "books://%53ecret"],
    }
    accents = ["books://caf\u00e9", "books://caf%c3%a9", "BOOKS://caf%C3%A9"]

    async def main() -> None:
        served = library().asgi(auth=mcprev.StaticTokens({"bob": "bob"}, needs=only_admins(asked)))
        client = Client(served)
        client.session = {"authorization": "Bearer bob"}
        opened = await client.open(row)
        for uri in [asked, *others.get(asked, accents)]:
            answer = await reading(opened, row, uri).done()
            assert b"too few scopes" in answer.body, uri
        open_ = await opened.request("resources/read", {"uri": "books://open"}).done()
        assert b"read open" in open_.body
        await served.aclose()

    run(main())


@pytest.mark.parametrize("row", rows_since(E), ids=str)
def test_the_header_may_have_another_spelling_and_no_other_name(row: Revision) -> None:
    async def main() -> None:
        served = library().asgi()
        opened = await Client(served).open(row)
        for header, good in (("BOOKS://%73ecret", True), ("books://secret", True), ("books://open", False)):
            named: Any = {"mcp-name": header}
            answer = await modern(
                opened, row, "resources/read", {"uri": "books://s%65cret"}, headers=named
            ).done()
            assert (answer.status == 200) is good, answer.body
        await served.aclose()

    run(main())


@ROWS
def test_a_change_is_told_in_the_spelling_of_the_subscriber(row: Revision) -> None:
    def to_all(_ctx: object, _tags: object) -> bool:
        return True

    app = library(visible=to_all)

    async def main() -> None:
        for canonical, spelled in EVERY:
            if comparable(canonical) != comparable(spelled):
                continue  # one for the template, not for RFC 3986
            async with (
                mcprev.connect(app, mode=row.name) as client,
                client.listen(uris=[spelled]) as changes,
            ):
                app.server.changed("resource", canonical)
                assert (await anext(changes)).uri == spelled

    run(main())


@ROWS
def test_what_is_kept_is_forgotten_at_a_change_of_any_spelling(row: Revision) -> None:
    read: list[str] = []
    app = library(read, middleware=[Caching(60)])

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            for spelled in ("notes://caf%c3%a9/all", FIXED):
                await client.read_resource(spelled, fresh=True)
            assert len(read) == 1
            app.server.changed("resource", "NOTES://caf%C3%A9/all")
            await client.read_resource(FIXED, fresh=True)
            assert len(read) == 2

    run(main())


@ROWS
def test_the_template_of_a_completion_has_several_spellings_too(row: Revision) -> None:
    app = library()

    @app.completion("books://{title}", "title")
    async def titles(value: str) -> list[str]:
        return [value + "!"]

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            for spelled in ("books://{title}", "BOOKS://{title}", "books://%7Btitle%7D"):
                ref = {"type": "ref/resource", "uri": spelled}
                params = {"ref": ref, "argument": {"name": "title", "value": "a"}}
                found = await client.raw("completion/complete", params)
                assert found["completion"]["values"] == ["a!"]

    run(main())


@ROWS
def test_a_template_that_a_client_does_not_see_lends_no_spelling_to_another(row: Revision) -> None:
    """Middleware that refuses `a://x/y` is not passed by `a://x%2Fy`, which a hidden template matches first."""
    app = mcprev.App("a", "1")

    @app.resource("a://{name}", visible=lambda _: False)
    async def hidden(name: str) -> str:
        return f"hidden {name}"

    @app.resource("a://{+path}")
    async def shown(path: str) -> str:
        return f"read {path}"

    async def main() -> None:
        async with mcprev.connect(app, mode=row.name) as client:
            assert "read x/y" in str(await client.read_resource("a://x/y"))
            with pytest.raises(mcprev.ResourceNotFound):
                await client.read_resource("a://x%2Fy")

    run(main())


@pytest.mark.parametrize(
    "uri", ["a://b c", 'a://"', "a://<b>", "a://b\\c", "a://^", "a://`", "a://b|c", "a://\x7f"]
)
@pytest.mark.parametrize("more", ["", "/{x}"])
def test_characters_that_no_uri_has_are_refused_at_registration(uri: str, more: str) -> None:
    app = mcprev.App("a", "1")
    with pytest.raises(ValueError, match=r"no URI has|is not a template of absolute URIs"):

        @app.resource(uri + more)
        async def read(x: str = "") -> str:
            return x


def test_a_second_spelling_of_a_resource_is_registered_already() -> None:
    app = library()
    with pytest.raises(ValueError, match="registered already, in another spelling"):
        app.resource("NOTES://caf%C3%A9/all")(lambda: "")
    app.remove_resource(FIXED)
    app.resource("NOTES://caf%C3%A9/all")(lambda: "")


@pytest.mark.parametrize(
    ("template", "uri", "canonical"),
    [
        ("a://{x},{y}", "a://1%2C2,3", "a://1%2C2,3"),
        ("a://{x}", "a://b%2Cc", "a://b,c"),
        ("a://{x}", "a://b%2Fc", "a://b%2Fc"),
        ("a://{x}", "a://%2573", "a://%2573"),
        ("a://{x}", "a://%FF", "a://%EF%BF%BD"),
        ("a://{+x}", "a://b%2Fc%3Fd", "a://b/c?d"),
        ("a://caf\u00e9/{x}", "A://CAF%c3%a9/b", "a://caf\u00e9/b"),
        ("a://{x}", "a://b/c", None),
    ],
)
def test_the_canonical_spelling_of_a_template(template: str, uri: str, canonical: str | None) -> None:
    made = Template(template)
    assert made.canonical(uri) == canonical
    if canonical is not None:
        assert made.canonical(canonical) == canonical


@ROWS
def test_a_handler_written_by_hand_gets_escapes_as_they_have_to_be_and_the_scheme_as_it_was_sent(
    row: Revision,
) -> None:
    read: list[str] = []

    class Reads(mcprev.ServerHandler):
        async def read_resource(self, ctx: mcprev.Context, params: Any) -> Any:
            del ctx
            read.append(params.uri)
            return {"contents": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    async def main() -> None:
        async with mcprev.connect(mcprev.Server(Reads(), "a", "1"), mode=row.name) as client:
            for uri in ("A://%73ecret%2f", "DATA:,", "a://caf\u00e9"):
                await client.raw("resources/read", {"uri": uri})

    run(main())
    assert read == ["A://secret%2F", "DATA:,", "a://caf\u00e9"]


def test_what_cannot_be_read_as_a_spelling_stays_as_it_is_and_what_is_too_long_is_refused() -> None:
    assert spellings("a:%zz%4") == ("a:%zz%4",)
    assert comparable("a:%2g") == "a:%2g"
    long = f"books://{'%73' * MAX_LENGTH}"
    message = parse(
        b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"%b"}}' % long.encode(),
        batch=False,
    )
    assert canonical_message(message, spelled_as_usual) is message
    assert MAX_URI < MAX_LENGTH

    def nothing(*_: object) -> None:
        return None

    async def main() -> None:
        served = library().asgi(auth=mcprev.StaticTokens({"bob": "bob"}, needs=nothing))
        for row in DEFAULT:
            client = Client(served)
            client.session = {"authorization": "Bearer bob"}
            answer = await (await client.open(row)).request("resources/read", {"uri": long}).done()
            assert b"more than 16384 characters" in answer.body
            assert b"read s" not in answer.body
        async with mcprev.connect(library()) as reader:
            with pytest.raises(mcprev.InvalidParams, match="not an absolute URI"):
                await reader.read_resource(long)
        await served.aclose()

    run(main())
