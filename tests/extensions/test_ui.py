"""Pages for the results of tools: served to clients that show them, not there for others, and checked on both sides."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, strategies as st

import mcprev
from helpers.running import run
from mcprev.extensions import ui
from mcprev.revisions import DEFAULT, Revision
from mcprev.transforms import tools_by_search
from mcprev_types.latest import models as m

HTML: Final = "<!doctype html><title>Clock</title>"
SHOWN: Final = [row for row in DEFAULT if "meta" in row.models.Tool.model_fields]
"""The revisions whose tools have `_meta`."""
ROWS: Final = pytest.mark.parametrize("row", DEFAULT, ids=lambda row: row.name)


def clock_app(**options: Any) -> mcprev.App:
    app = mcprev.App("clock", "1", **options)
    page = app.ui(
        "ui://clock", HTML, title="Clock", csp=ui.Csp(connect_domains=["https://time.example"]),
        permissions=["clipboardWrite"], domain="clock.example", prefers_border=False,
    )  # fmt: skip

    @app.tool(ui=page, meta={"com.acme/own": 1})
    def now() -> list[int]:
        return [12]

    @app.tool(ui=page.app_only)
    def tick() -> str:
        return "tick"

    @app.tool
    def plain() -> str:
        return "plain"

    return app


def connect(app: mcprev.App | mcprev.Server, row: Revision, *, shows: bool = True) -> Any:
    return mcprev.connect(app, revisions=[row.name], extensions=[ui.HOST] if shows else [])


@ROWS
def test_a_client_that_shows_pages_finds_and_reads_them(row: Revision) -> None:
    async def main() -> None:
        async with connect(clock_app(), row) as client:
            tools = {tool.name: tool async for tool in client.tools()}
            resources = [resource async for resource in client.resources()]
            if row not in SHOWN:
                assert sorted(tools) == ["now", "plain"]
                assert resources == []
                return
            assert client.supports(ui.NAME)
            assert tools["now"].meta == {"com.acme/own": 1, "ui": {"resourceUri": "ui://clock"}}
            assert tools["tick"].meta == {"ui": {"resourceUri": "ui://clock", "visibility": ["app"]}}
            assert ui.tool_interface(tools["plain"]) is None
            assert [tool.name for tool in ui.for_model(tools.values())] == ["now", "plain"]
            assert [tool.name for tool in ui.for_app(tools.values())] == ["now", "tick", "plain"]
            assert (await client.call_tool("tick")).text == "tick"
            [resource] = resources
            said: dict[str, Any] = {
                "csp": {"connectDomains": ["https://time.example"]}, "permissions": {"clipboardWrite": {}},
                "domain": "clock.example", "prefersBorder": False,
            }  # fmt: skip
            assert (resource.uri, resource.name, resource.title) == ("ui://clock", "clock", "Clock")
            assert (resource.mime_type, resource.meta) == (ui.MIME_TYPE, {"ui": said})
            [contents] = (await client.read_resource("ui://clock")).contents
            assert (contents.mime_type, contents.meta) == (ui.MIME_TYPE, {"ui": said})
            interface = ui.tool_interface(tools["now"])
            assert interface is not None
            page = await ui.read_page(client, interface)
            assert page == ui.Page(
                "ui://clock", HTML, ui.Csp(connect_domains=["https://time.example"]), frozenset({"clipboardWrite"}),
                "clock.example", False,
            )  # fmt: skip
            assert page.allow == "clipboard-write"

    run(main())


@ROWS
def test_for_any_other_client_there_are_ordinary_tools_only(row: Revision) -> None:
    async def main() -> None:
        other: mcprev.Extension[Any, Any] = mcprev.Extension(ui.NAME, {"mimeTypes": ["text/uri-list"]})
        several: list[list[mcprev.Extension[Any, Any]]] = [[], [other], [mcprev.Extension(ui.NAME)]]
        for extensions in several:
            async with mcprev.connect(clock_app(), revisions=[row.name], extensions=extensions) as client:
                tools = {tool.name: tool.meta async for tool in client.tools()}
                assert tools.keys() == {"now", "plain"}
                assert "ui" not in (tools["now"] or {})
                assert [resource async for resource in client.resources()] == []
                assert "12" in (await client.call_tool("now")).text
                with pytest.raises(mcprev.RpcError, match="Unknown tool"):
                    await client.call_tool("tick")
                with pytest.raises(mcprev.ResourceNotFound):
                    await client.read_resource("ui://clock")

    run(main())


@pytest.mark.parametrize("row", SHOWN, ids=lambda row: row.name)
def test_a_mounted_app_keeps_its_pages(row: Revision) -> None:
    async def main() -> None:
        outer = mcprev.App("outer", "1")
        outer.mount(clock_app(), "shop")
        async with connect(outer, row) as client:
            tools = {tool.name: tool async for tool in client.tools()}
            interface = ui.tool_interface(tools["shop_now"])
            assert interface is not None
            assert (await ui.read_page(client, interface)).uri == interface.uri == "ui://shop/clock"
        async with connect(outer, row, shows=False) as client:
            assert [tool.name async for tool in client.tools()] == ["shop_now", "shop_plain"]

    run(main())


def test_a_tool_names_no_page_that_is_out_of_service() -> None:
    async def main() -> None:
        app = clock_app()
        async with connect(app, SHOWN[-1]) as client:
            app.disable("ui://clock")
            tools = {tool.name: tool async for tool in client.tools(fresh=True)}
            assert ui.tool_interface(tools["now"]) is None

    run(main())


def test_the_server_declares_it_with_pages_and_once() -> None:
    for options in (
        {},
        {"extensions": [ui.SERVER]},
        {"capabilities": m.ServerCapabilities(extensions={ui.NAME: {}})},
    ):
        for row in DEFAULT:
            assert ui.NAME in clock_app(**options).server.identity.capabilities(row)["extensions"]
    assert "extensions" not in mcprev.App("a", "1").server.identity.capabilities(DEFAULT[-1])


def test_a_page_may_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "clock.html").write_text("<!-- ours -->\n<!DOCTYPE HTML>\n<p>é", encoding="utf-8")
    page = ui.UserInterface(uri="ui://clock", html=tmp_path / "clock.html")
    assert page.contents().text == "<!-- ours -->\n<!DOCTYPE HTML>\n<p>é"
    with pytest.raises(OSError, match="missing"):
        ui.UserInterface(uri="ui://clock", html=tmp_path / "missing.html")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"uri": "https://a.example"}, "is not the URI of a page"),
        ({"uri": "ui://"}, "is not the URI of a page"),
        ({"uri": "ui://a b"}, "is not the URI of a page"),
        ({"uri": "ui://{name}"}, "is not the URI of a page"),
        ({"uri": "ui://a\nb"}, "is not the URI of a page"),
        ({"uri": "ui://" + "a" * 501}, "is not the URI of a page"),
        ({"html": "clock.html"}, "pathlib.Path"),
        ({"html": "<p>" * 100}, "does not begin with <!doctype html>$"),
        ({"html": HTML + "x" * ui.MAX_HTML}, "more than"),
        ({"permissions": ["usb"]}, "`permissions`"),
        ({"permissions": "camera"}, "`permissions`"),
        ({"domain": "a.example; x"}, "`domain`"),
        ({"domain": ""}, "`domain`"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_invalid_page_is_refused_at_once(wrong: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {"uri": "ui://clock", "html": HTML, **wrong}
    with pytest.raises(ValueError, match=says):
        mcprev.App("a", "1").ui(**given)


ORIGINS: Final = [
    "https://a.example", "https://*.a.example", "wss://a.example:8443", "http://localhost:3000", "http://127.0.0.1",
]  # fmt: skip
NO_ORIGINS: Final = [
    "", "*", "a.example", "https:", "https://", "https://*", "https://*.example", "https://a.example/", "https://a.example/p",
    "https://a.example?x", "https://u@a.example", "https://a..example", "https://-a.example", "data:", "blob:",
    "'unsafe-eval'", "'self'", "https://a.example; script-src *", "https://a.example, https://b.example",
    "https://a.example https://b.example", "https://a.example\n", "https://a.example\r\nx: y", " https://a.example",
    "javascript://a.example", "file://a.example", "https://a.example:", "https://a.example:123456", "https://é.example",
    "https://" + "a" * 64 + ".example", "https://" + "a." * 130 + "example",
]  # fmt: skip


@pytest.mark.parametrize(
    "member", ["connect_domains", "resource_domains", "frame_domains", "base_uri_domains"]
)
def test_a_policy_names_origins_only(member: str) -> None:
    assert getattr(ui.Csp(**{member: ORIGINS}), member) == tuple(ORIGINS)
    for wrong in NO_ORIGINS:
        with pytest.raises(ValueError, match="is not an origin"):
            ui.Csp(**{member: [wrong]})
    with pytest.raises(ValueError, match="one string"):
        ui.Csp(**{member: ORIGINS[0]})
    with pytest.raises(ValueError, match="more than"):
        ui.Csp(**{member: ORIGINS[:1] * (ui.MAX_ORIGINS + 1)})


@given(st.lists(st.text(alphabet="htps:/*.aé;' \n\"%@\\-_0", max_size=30), max_size=4))
def test_no_text_adds_a_directive_to_a_policy(texts: list[str]) -> None:
    """Whatever a server sends as origins, the policy has the same directives."""
    names = [part.split()[0] for part in ui.Csp().policy().split(";")]
    kept = [text for text in texts if ui.is_origin(text)]
    policy = ui.Csp(
        connect_domains=kept, resource_domains=kept, frame_domains=kept, base_uri_domains=kept
    ).policy()
    assert [part.split()[0] for part in policy.split(";")] == names
    assert "\n" not in policy
    assert policy.count("'unsafe") == 2


def test_the_policy_of_a_page_that_asks_for_nothing_allows_nothing() -> None:
    assert ui.Csp().policy() == (
        "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; connect-src 'none'; "
        "img-src 'self' data:; font-src 'self'; media-src 'self' data:; frame-src 'none'; object-src 'none'; base-uri 'self'"
    )
    full = ui.Csp(
        connect_domains=["https://c.example"], resource_domains=["https://r.example"],
        frame_domains=["https://f.example"], base_uri_domains=["https://b.example"],
    ).policy()  # fmt: skip
    assert full == (
        "default-src 'none'; script-src 'self' 'unsafe-inline' https://r.example; "
        "style-src 'self' 'unsafe-inline' https://r.example; connect-src 'self' https://c.example; "
        "img-src 'self' data: https://r.example; font-src 'self' https://r.example; "
        "media-src 'self' data: https://r.example; frame-src https://f.example; object-src 'none'; "
        "base-uri https://b.example"
    )


def test_a_tool_needs_a_page_of_its_app_and_the_first_page_comes_before_the_server() -> None:
    page = ui.UserInterface(uri="ui://other", html=HTML)
    app = mcprev.App("a", "1")
    with pytest.raises(ValueError, match="'ui://other' is not a page of this app"):
        app.tool(name="t", ui=page)(lambda: "")
    wrong: Any = "ui://clock"
    with pytest.raises(TypeError, match="`ui` is what"):
        app.tool(name="t", ui=wrong)(lambda: "")
    for words in ("app", ["user"]):
        with pytest.raises(ValueError, match="`visibility`"):
            ui.ToolInterface(None, words)  # type: ignore[arg-type]
    app.resource("notes://all")(lambda: "")
    assert app.server.identity.kinds(SHOWN[-1])
    with pytest.raises(mcprev.LocalProtocolError, match="first page"):
        app.ui("ui://late", HTML)
    with pytest.raises(mcprev.LocalProtocolError, match="first page"):
        app.tool(name="t", ui=ui.ToolInterface(None, ["app"]))(lambda: "")
    with pytest.raises(mcprev.LocalProtocolError, match="first page"):
        app.mount(clock_app())
    below, served = mcprev.App("b", "1"), mcprev.App("s", "1")
    served.mount(below)
    served.resource("notes://all")(lambda: "")
    assert served.server.identity.kinds(SHOWN[-1])
    with pytest.raises(mcprev.LocalProtocolError, match="first page"):
        below.ui("ui://late", HTML)
    with pytest.raises(mcprev.LocalProtocolError, match="first page"):
        below.mount(clock_app(), "x")
    assert not below.registry.tools
    late = clock_app()
    assert late.server.identity.kinds(SHOWN[-1])
    late.mount(clock_app(), "x")
    assert late.ui("ui://late", HTML).uri == "ui://late"


TOLD: Final[list[tuple[Any, str | None, Any]]] = [
    (None, None, None),
    ({"ui": {}}, None, None),
    ({"ui": None}, None, None),
    ({"ui": [1]}, None, None),
    ({"ui": {"resourceUri": "ui://a"}}, "ui://a", {"model", "app"}),
    ({"ui/resourceUri": "ui://old"}, "ui://old", {"model", "app"}),
    ({"ui": {"resourceUri": "ui://a"}, "ui/resourceUri": "ui://old"}, "ui://a", {"model", "app"}),
    ({"ui": {"resourceUri": "https://a.example"}}, None, None),
    ({"ui": {"resourceUri": 1, "visibility": ["app"]}}, None, {"app"}),
    ({"ui": {"visibility": ["model"]}}, None, {"model"}),
    ({"ui": {"visibility": ["app", "other", 1, None]}}, None, {"app"}),
    ({"ui": {"visibility": ["other"]}}, None, set()),
    ({"ui": {"visibility": []}}, None, set()),
    ({"ui": {"resourceUri": "ui://a", "visibility": "app"}}, "ui://a", {"model", "app"}),
]


@pytest.mark.parametrize(
    ("meta", "uri", "visibility"),
    TOLD,
    ids=[str(meta) for meta, _, _ in TOLD],
)
def test_what_a_server_says_of_a_tool_is_read_and_checked(
    meta: Any, uri: str | None, visibility: Any
) -> None:
    tool = m.Tool(name="t", input_schema=m.ToolInputSchema(), meta=meta)
    found = ui.tool_interface(tool)
    seen = {"model", "app"} if visibility is None else visibility
    assert found == (None if visibility is None else ui.ToolInterface(uri, visibility))
    assert [bool([*ui.for_model([tool])]), bool([*ui.for_app([tool])])] == [
        who in seen for who in ("model", "app")
    ]


def read(*contents: m.TextResourceContents | m.BlobResourceContents, uri: str = "ui://a") -> ui.Page:
    """Read a page from a server that answers with these contents."""

    class Handler(mcprev.ServerHandler):
        async def read_resource(self, ctx: Any, params: Any) -> m.ReadResourceResult:
            return m.ReadResourceResult(contents=list(contents))

    async def main() -> ui.Page:
        async with connect(mcprev.Server(Handler(), "a", "1"), SHOWN[-1]) as client:
            return await ui.read_page(client, uri)

    return run(main())


def page_of(
    uri: str = "ui://a", mime_type: str | None = ui.MIME_TYPE, meta: Any = None
) -> m.TextResourceContents:
    return m.TextResourceContents(uri=uri, mime_type=mime_type, text=HTML, meta=meta)


def test_a_server_that_declares_nothing_may_have_pages() -> None:
    """The extension asks hosts alone to declare it."""
    assert read(page_of()) == ui.Page("ui://a", HTML, ui.Csp(), frozenset(), None, None)
    blob = m.BlobResourceContents(
        uri="ui://a", mime_type='Text/HTML; profile="mcp-app"', blob=base64.b64encode(b"<p>").decode()
    )
    assert read(blob).html == "<p>"


@pytest.mark.parametrize(
    ("contents", "says"),
    [
        ([], "one page"),
        ([page_of(), page_of()], "one page"),
        ([page_of(uri="ui://b")], "one page"),
        ([page_of(mime_type="text/html")], "MIME type"),
        ([page_of(mime_type=None)], "MIME type"),
        ([m.BlobResourceContents(uri="ui://a", mime_type=ui.MIME_TYPE, blob="/w==")], "not HTML in UTF-8"),
        (
            [m.TextResourceContents(uri="ui://a", mime_type=ui.MIME_TYPE, text="x" * (ui.MAX_HTML + 1))],
            "more than",
        ),
    ],
    ids=["none", "two", "another URI", "another type", "no type", "bytes", "too large"],
)
def test_what_is_no_page_is_refused(contents: list[Any], says: str) -> None:
    with pytest.raises(mcprev.RemoteProtocolError, match=says):
        read(*contents)


@pytest.mark.parametrize("uri", ["", "https://a.example", "file:///etc/passwd"])
def test_only_pages_are_read(uri: str) -> None:
    with pytest.raises(ValueError, match="is not the URI of a page"):
        read(page_of(), uri=uri)


def test_what_a_server_asks_for_is_read_and_checked(caplog: pytest.LogCaptureFixture) -> None:
    csp: dict[str, Any] = {
        "connectDomains": ["https://a.example", "https://a.example; script-src *", 1, "*"], "resourceDomains": "https://a.example",
        "frameDomains": ["https://a.example"] * 150, "baseUriDomains": None,
    }  # fmt: skip
    said: dict[str, Any] = {
        "csp": csp,
        "permissions": {"camera": {}, "usb": {}},
        "domain": "a b",
        "prefersBorder": "yes",
    }
    page = read(page_of(meta={"ui": said}))
    assert page.csp == ui.Csp(
        connect_domains=["https://a.example"], frame_domains=["https://a.example"] * 100
    )
    assert page.permissions == {"camera"}
    assert (page.allow, page.domain, page.prefers_border) == ("camera", None, None)
    assert "3 sources that are not origins" in caplog.text
    odd: list[Any] = [None, [], "x", 1, {"csp": [], "permissions": ["camera"]}]
    for each in odd:
        assert read(page_of(meta={"ui": each})).csp == ui.Csp()


@pytest.mark.parametrize("row", SHOWN, ids=lambda row: row.name)
def test_the_pages_of_several_servers_lead_back_to_them(row: Revision) -> None:
    """Whatever a server names: a prefix of another server is a name of its own."""
    old = mcprev.App("old", "1")
    old.tool(name="flat", meta={"ui/resourceUri": "one__ui://clock", "ui": {"resourceUri": 5}})(lambda: "")
    config = {"one": clock_app(), "two": clock_app(), "old": old}

    async def main() -> None:
        async with mcprev.connect_all(config, mode=row.name, extensions=[ui.HOST]) as clients:
            tools = {tool.name: tool async for tool in clients.tools()}
            for server in ("one", "two"):
                found = ui.tool_interface(tools[f"{server}__now"])
                assert found is not None
                assert found.uri == f"{server}__ui://clock"
                assert (await ui.read_page(clients, found)).html == HTML
                assert (tools[f"{server}__now"].meta or {})["com.acme/own"] == 1
                own = {tool.name: tool async for tool in clients[server].tools()}["now"]
                assert ui.tool_interface(own) == ui.ToolInterface("ui://clock")
                page = (await clients.list_tools()).tools[0]
                assert (page.meta or {})["ui"]["resourceUri"] == "one__ui://clock"
            assert tools["one__plain"].meta is None
            assert (tools["old__flat"].meta or {})["ui/resourceUri"] == "old__one__ui://clock"

    run(main())


def test_a_page_of_many_comments_is_read_or_refused_at_once() -> None:
    """Each comment could be read as a part of the one before."""
    comments = "<!---->  " * 10_000
    assert ui.UserInterface(uri="ui://x", html=f"\ufeff {comments}<!DOCTYPE html><p>").html
    for html in (comments, f"{comments}<p>", "<!--" * 10_000, f"{comments}<!--<!doctype html>"):
        with pytest.raises(ValueError, match="does not begin with"):
            ui.UserInterface(uri="ui://x", html=html)


@pytest.mark.parametrize("way", ["ui", "meta", "mounted"])
def test_a_tool_that_only_pages_call_is_not_found_or_called_by_search(way: str) -> None:
    """The model sees `search_tools` and `call_tool`, so what a host keeps from it, these keep, too."""
    app = mcprev.App("pages", "1")
    page = app.ui("ui://page", HTML)
    hidden: Any = {"meta": {"ui": {"visibility": ["app"]}}} if way == "meta" else {"ui": page.app_only}

    @app.tool(**hidden)
    async def erase() -> str:
        """Erase all records."""
        return "erased"

    @app.tool(ui=page)
    async def show() -> str:
        """Show all records."""
        return "shown"

    served, prefix = app, ""
    if way == "mounted":
        served, prefix = mcprev.App("outer", "1"), "in_"
        served.mount(app, "in")
    tools_by_search(served)

    async def main() -> None:
        async with mcprev.connect(served, extensions=[ui.HOST]) as client:
            found = (await client.call_tool("search_tools", {"query": "all records erase show"})).text
            assert "Show all" in found
            assert "rase" not in found.replace(prefix, "")
            refused = await client.call_tool("call_tool", {"name": f"{prefix}erase"})
            assert refused.is_error
            assert "Unknown tool" in refused.text
            assert (await client.call_tool("call_tool", {"name": f"{prefix}show"})).text == "shown"
            assert (await client.call_tool(f"{prefix}erase")).text == "erased", "as the page does"

    run(main())
