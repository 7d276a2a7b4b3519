"""The consent page: what users see of a server and its scopes, in the policy that a browser holds it to (AUTH-20)."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest

import mcprev
import mcprev_types.latest as models
from authorization_server.town import (
    RESOURCE,
    SECRET,
    ByHand,
    Clock,
    LikeGitHub,
    Response,
    Site,
)
from helpers.requirements import req
from helpers.running import run
from mcprev.auth.authorization_server.pages import MAX_ICON, ServerFace

DOT = "data:image/png;base64,iVBORw0KGgo="
EVIL = "<img src=x onerror=alert(1)>\"'&"


def policy(response: Response) -> dict[str, list[str]]:
    """What the policy of a page allows, by kind."""
    parts = response.headers["content-security-policy"].split("; ")
    return {name: sources.split() for name, _, sources in (part.partition(" ") for part in parts)}


def allows_its_style(response: Response) -> bool:
    """Whether a browser applies the style of a page, and nothing else that it would have to load or run."""
    (style,) = re.findall(r"<style>(.*?)</style>", response.text, re.DOTALL)
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    found = policy(response)
    return found["style-src"] == [f"'sha256-{digest}'"] and found["default-src"] == ["'none'"]


def consent_page(
    app: dict[str, Any], client: dict[str, Any], provider: dict[str, Any], **options: Any
) -> tuple[Response, Response]:
    """The page of an app with a login, and that of an error of the same login."""
    found: list[Response] = []

    async def main() -> None:
        clock = Clock()
        idp = LikeGitHub(clock)
        async with Site(idp, clock) as site:
            login = mcprev.Login(
                replace(idp.provider(), **provider), resource=RESOURCE, secrets=SECRET, **options
            )
            site.apps["8101"] = mcprev.App(**app, auth=login).asgi()
            hand = ByHand(site)
            registered = await hand.register(**client)
            scopes = " ".join([*options.get("scopes", ()), *options.get("optional_scopes", ())]) or None
            found.append(await hand.ask(registered["client_id"], scope=scopes))
            found.append(await hand.ask("nobody"))

    run(main())
    return found[0], found[1]


@req("AUTH-20")
def test_the_page_shows_the_server_the_provider_and_the_scopes_in_words() -> None:
    icons = [models.Icon(src=DOT, theme="dark"), models.Icon(src="https://cdn.example/i.png")]
    page, wrong = consent_page(
        {"name": "shop", "version": "1", "title": "Corner Shop", "icons": icons},
        {"client_name": "Assistant"},
        {"title": "GitHub"},
        scopes=["shop"],
        optional_scopes=["shop:write", "offline_access"][:1],
        scope_texts={"shop": "See what is in the shop", "unused": "Never shown"},
        stylesheet="h1{color:teal}",
    )
    assert page.status == 200
    text = re.sub(r"<[^>]+>", " ", page.text.partition("<main>")[2])
    words = " ".join(text.split())
    assert "Allow Assistant to use Corner Shop ?" in words
    assert "See what is in the shop (shop) shop:write" in words
    assert "Never shown" not in words
    assert "you log in at GitHub." in words
    assert f"Server {RESOURCE}" in words
    assert '<source media="(prefers-color-scheme: dark)" srcset="data:image/png' in page.text
    assert policy(page)["img-src"] == ["https://cdn.example", "data:"]
    for each in (page, wrong):  # the style of the operator comes last, on the page of an error too
        assert "h1{color:teal}</style>" in each.text
        assert allows_its_style(each)
        assert 'content="width=device-width, initial-scale=1"' in each.text
        assert "@media(prefers-color-scheme:dark)" in each.text
        assert "<script" not in each.text
    assert "img-src" not in policy(wrong)


@req("AUTH-20")
def test_no_text_of_anybody_is_markup_on_the_page() -> None:
    page, _ = consent_page(
        {"name": "shop", "version": "1", "title": EVIL},
        {"client_name": EVIL},
        {"title": EVIL},
        scopes=["shop"],
        scope_texts={"shop": EVIL},
    )
    assert page.text.count("&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;") == 5
    assert "<img" not in page.text
    assert "img-src" not in policy(page)
    assert allows_its_style(page)


@pytest.mark.parametrize(
    ("src", "source"),
    [
        ("https://cdn.example/i.png", "https://cdn.example"),
        ("https://cdn.example:8443/i.svg?x=1", "https://cdn.example:8443"),
        ("http://127.0.0.1:8000/i.png", "http://127.0.0.1:8000"),
        (DOT, "data:"),
        ("data:image/svg+xml;base64,PHN2Zy8+", "data:"),
        ("http://cdn.example/i.png", ""),
        ("https://user@cdn.example/i.png", ""),
        ("https://cdn.example;script-src *", ""),
        ("https://* 'unsafe-inline'/i.png", ""),
        ("javascript:alert(1)", ""),
        ("data:text/html;base64,PHNjcmlwdD4=", ""),
        ("data:image/png;base64," + "A" * MAX_ICON, ""),
    ],
    ids=lambda value: str(value)[:40],
)
def test_which_icons_are_shown(src: str, source: str) -> None:
    face = ServerFace.of({"name": "n", "icons": [{"src": src}]})
    assert face.images == ((source,) if source else ())
    assert face.icon == (src if source else "")


def test_a_server_without_title_and_icons_is_called_by_its_name() -> None:
    assert ServerFace.of({"name": "n"}) == ServerFace("n")
    assert ServerFace.of({"name": "n", "icons": [{"src": DOT, "theme": "dark"}]}) == ServerFace("n", DOT, DOT)


def test_a_style_that_ends_the_style_is_refused() -> None:
    with pytest.raises(ValueError, match="without the characters </"):
        mcprev.Login(mcprev.Provider.github("i", "s"), resource=RESOURCE, stylesheet="</style><script>")
