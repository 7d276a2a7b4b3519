"""What a server that wants tokens says of itself, and where (AUTH-4, AUTH-5, AUTH-18; RFC 9728)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pytest

import mcprev
from auth.guarded import (
    ISSUER,
    METADATA,
    RESOURCE,
    ROWS,
    WAYS,
    Guarded,
    Tokens,
    Way,
    asked,
    challenge,
    good,
    over_asgi,
    shows,
)
from helpers.asgi_bridge import Client
from helpers.requirements import C, D, E, req
from helpers.running import run
from mcprev.errors import INVALID_REQUEST
from mcprev.revisions import Revision
from mcprev.transports.http.server.cors import cors

ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
since_metadata = pytest.mark.parametrize("row", ROWS[1:], ids=lambda row: row.name)

ROOT: Final = "/.well-known/oauth-protected-resource"
ABOUT: Final = {"resource_name": "Guarded \xe9", "scopes_supported": ["read", "write"]}


@req("AUTH-4", "AUTH-5")
@ways
@since_metadata
def test_the_metadata_is_where_the_challenge_says_and_at_the_root(row: Revision, way: Way) -> None:
    """For everybody to read with GET, to keep for a while, from whatever page."""

    async def main() -> None:
        auth = Tokens().bearer(scopes=["read"], about=ABOUT)
        assert auth.metadata() == {
            "resource": RESOURCE,
            "authorization_servers": [ISSUER],
            "bearer_methods_supported": ["header"],
            **ABOUT,
        }
        async with way(mcprev.Server(Guarded(), "s", "1"), auth=auth, sse=True) as ask:
            verb, target, headers, body = asked(row)
            refused = await ask(verb, target, [*headers.items()], body)
            named = challenge(refused.headers)["resource_metadata"]
            assert named == METADATA == auth.metadata_url == f"https://mcp.example{auth.metadata_path}"
            for path in (auth.metadata_path, auth.metadata_path + "/", ROOT, ROOT + "/"):
                found = await ask("GET", path, [("mcp-protocol-version", row.version)])
                assert (found.status, found.json) == (200, auth.metadata())
                assert found.headers["cache-control"] == "public, max-age=3600"
                assert found.headers["access-control-allow-origin"] == "*"
                for verb in ("POST", "PUT", "DELETE", "OPTIONS"):
                    other = await ask(verb, path, [], {})
                    assert (other.status, other.headers["allow"]) == (405, "GET")
                    assert other.error["code"] == INVALID_REQUEST
                page = await ask("GET", path, [("Origin", "https://evil.example")])
                assert page.status == 403, "origins come first"
            for path in (ROOT + "/other", ROOT + "x", "/.well-known", ROOT + "/mcp/more"):
                assert (await ask("GET", path)).status == 404

    run(main())


@req("AUTH-5", at=(D, E))
@ways
def test_there_is_no_metadata_where_no_tokens_are_wanted(way: Way) -> None:
    async def main() -> None:
        async with way(mcprev.Server(Guarded(), "s", "1")) as ask:
            for path in (ROOT, ROOT + "/mcp"):
                assert (await ask("GET", path)).status == 404

    run(main())


@req("AUTH-4", "AUTH-5", at=(C, D, E))
@pytest.mark.parametrize(
    ("resource", "said", "metadata"),
    [
        ("https://mcp.example", "https://mcp.example", "https://mcp.example" + ROOT),
        ("https://mcp.example/", "https://mcp.example/", "https://mcp.example" + ROOT),
        (
            "HTTPS://MCP.Example:8443/A/b",
            "https://mcp.example:8443/A/b",
            f"https://mcp.example:8443{ROOT}/A/b",
        ),
        ("https://x.example/mcp/", "https://x.example/mcp/", f"https://x.example{ROOT}/mcp"),
        ("http://127.0.0.1:8000/mcp", "http://127.0.0.1:8000/mcp", f"http://127.0.0.1:8000{ROOT}/mcp"),
        ("http://[::1]:8000/mcp", "http://[::1]:8000/mcp", f"http://[::1]:8000{ROOT}/mcp"),
        ("https://x.example/a%20b", "https://x.example/a%20b", f"https://x.example{ROOT}/a%20b"),
    ],
)
def test_a_resource_is_what_its_clients_know_it_by(resource: str, said: str, metadata: str) -> None:
    """Its metadata is found at its path, and tokens for it in whatever form are for it."""

    async def main() -> None:
        used = Tokens(token=good("alice", audience=resource))
        auth = used.bearer(resource=resource)
        assert (auth.metadata()["resource"], auth.metadata_url) == (said, metadata)
        assert auth.metadata_path == unquote(urlsplit(metadata).path), "as routes name it"
        async with over_asgi(mcprev.Server(Guarded(), "s", "1"), auth=auth) as ask:
            assert (await ask("GET", auth.metadata_path)).json == auth.metadata()
            verb, target, headers, body = asked(ROWS[-1], "access")
            assert (await ask(verb, target, [*headers.items(), *shows("token").items()], body)).status == 200

    run(main())


@req("AUTH-5", "AUTH-1", "AUTH-18", at=E)
@pytest.mark.parametrize(
    "wrong",
    [
        {"resource": "mcp.example/mcp"},
        {"resource": "ftp://mcp.example/mcp"},
        {"resource": "https:///mcp"},
        {"resource": RESOURCE + "#here"},
        {"resource": RESOURCE + "?x=1"},
        {"resource": RESOURCE + "?"},
        {"resource": "https://me:you@mcp.example/mcp"},
        {"resource": "https://mcp.example:x/mcp"},
        {"resource": 'https://mcp.example/"mcp'},
        {"resource": "https://mcp.example/m cp"},
        {"resource": None},
        {"authorization_servers": []},
        {"authorization_servers": ISSUER},
        {"authorization_servers": ["as.example"]},
        {"authorization_servers": [ISSUER, "http://as.example"]},
        {"authorization_servers": [ISSUER + "?x=1"]},
        {"scopes": ["a b"]},
        {"scopes": ['a"']},
        {"scopes": [""]},
        {"scopes": ["read", "offline_access"]},
        {"about": {"scopes_supported": ["offline_access"]}},
        {"about": {"resource": "https://other.example"}},
        {"about": {"authorization_servers": []}},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"resource|authorization server|authorization_servers|scope|about"):
        Tokens().bearer(**wrong)


@req("AUTH-1", "HTTP-28", everywhere=True)
def test_a_token_says_whose_it_is_and_nothing_else_does() -> None:
    server = mcprev.Server(Guarded(), "s", "1")
    with pytest.raises(ValueError, match="exclude each other"):
        server.asgi(auth=Tokens().bearer(), principal=lambda _: "me")


# -- in other apps ---------------------------------------------------------------------------------------


def starlette(auth: mcprev.Bearer, app: Any, root: str) -> Any:
    from starlette.applications import Starlette
    from starlette.routing import Mount, Route

    return Starlette(routes=[Route(auth.metadata_path, auth.metadata_app), Mount(root, app)])


def fastapi(auth: mcprev.Bearer, app: Any, root: str) -> Any:
    from fastapi import FastAPI

    outer = FastAPI()
    outer.get(auth.metadata_path)(auth.metadata)
    outer.mount(root, app)
    return outer


@req("AUTH-4", "AUTH-5", "AUTH-1")
@pytest.mark.skipif(importlib.util.find_spec("fastapi") is None, reason="fastapi is not installed")
@since_metadata
@pytest.mark.parametrize("outer", [starlette, fastapi])
def test_an_outer_app_serves_what_is_outside_of_a_mounted_one(
    outer: Callable[..., Any], row: Revision
) -> None:
    async def main() -> None:
        resource = "https://mcp.example/outer/mcp"
        used = Tokens(token=good("alice", audience=resource))
        auth = used.bearer(resource=resource)
        app = mcprev.Server(Guarded(), "s", "1").asgi(auth=auth)
        client = Client(outer(auth, app, "/outer"), "/outer/mcp")
        client.revision = row
        refused = await client.call("access").done()
        assert refused.status == 401
        path = challenge(refused.headers)["resource_metadata"].removeprefix("https://mcp.example")
        assert path == "/outer" + ROOT + "/outer/mcp"
        for there in (path, auth.metadata_path):
            found = await client.send("GET", path=there).done()
            assert (found.status, found.json) == (200, auth.metadata())
            assert (await client.send("POST", path=there).done()).status == 405
        inside = await client.send("GET", path="/outer" + ROOT).done()
        assert (inside.status, inside.json) == (200, auth.metadata())
        client.session.update(shows("token"))
        assert (await (await client.open(row)).call("access").done()).status == 200
        await app.aclose()

    run(main())


@req("AUTH-4", "AUTH-5", at=(C, D, E))
@pytest.mark.parametrize(
    ("root", "below"), [("", ""), ("/", ""), ("/outer", "/outer"), ("/a/b/", "/a/b"), ('/a b"', "/a%20b%22")]
)
def test_a_challenge_names_the_metadata_below_the_path_of_the_app(root: str, below: str) -> None:
    auth = Tokens().bearer()
    assert auth.at(root).metadata_url == f"https://mcp.example{below}{ROOT}/mcp"
    assert auth.metadata_url == METADATA


@req("AUTH-5", "HTTP-30", at=(D, E))
def test_pages_find_one_header_each() -> None:
    """The metadata is open to every page, and so is the challenge to those that are let in."""

    async def main() -> None:
        origins = ["https://app.example"]
        app = mcprev.Server(Guarded(), "s", "1").asgi(auth=Tokens().bearer(), origins=origins)
        seen: list[tuple[bytes, bytes]] = []

        async def outer(scope: Any, receive: Any, send: Any) -> None:
            async def sent(message: Any) -> None:
                seen.extend(message.get("headers", ()))
                await send(message)

            await cors(app, origins=origins)(scope, receive, sent)

        client = Client(outer)
        for path, allowed in ((ROOT, b"https://app.example"), ("/mcp", b"https://app.example")):
            seen.clear()
            await client.send("GET", None, {"origin": "https://app.example"}, path=path).done()
            assert [value for name, value in seen if name == b"access-control-allow-origin"] == [allowed]
            exposed = dict(seen)[b"access-control-expose-headers"].decode()
            assert "WWW-Authenticate" in exposed.split(", ")
        seen.clear()
        await client.send("GET", path=ROOT).done()
        assert dict(seen)[b"access-control-allow-origin"] == b"*"
        await app.aclose()

    run(main())
