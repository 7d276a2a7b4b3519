"""The pages that users see: plain HTML without scripts, in which every foreign text is escaped.

The policy of the pages allows their own style, by its hash, and the icons of the server, by their origins, and nothing
else. It has no `form-action`: browsers apply it to the redirects that follow a form too, and these lead to the identity
provider and back to the client.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final
from urllib.parse import urlsplit

from mcprev.auth.authorization_server.requests import (
    OFFLINE,
    AuthorizationRequest,
    ClientRecord,
    host_of,
)
from mcprev.auth.urls import is_secure
from mcprev.errors import Json

_STYLE: Final = (
    ":root{color-scheme:light dark;--ground:#f4f5f7;--card:#fff;--text:#1b1f24;--soft:#59616b;--line:#d5d9df;--main:#1a5cc8;--on:#fff}"
    "@media(prefers-color-scheme:dark){:root{--ground:#101214;--card:#1a1d21;--text:#eceef0;--soft:#a9b0ba;--line:#383e46;"
    "--main:#86b4ff;--on:#0a1222}}"
    "*{box-sizing:border-box}"
    "body{font:1rem/1.5 system-ui,sans-serif;margin:0;background:var(--ground);color:var(--text);overflow-wrap:anywhere}"
    "main{max-width:30rem;margin:8vh auto;padding:2rem;background:var(--card);border:1px solid var(--line);border-radius:.75rem}"
    ".icon{display:block;width:3rem;height:3rem;margin-bottom:1rem;border-radius:.5rem;object-fit:contain}"
    "h1{font-size:1.375rem;line-height:1.25;margin:0 0 .75rem}h2{font-size:1rem;margin:1.25rem 0 .25rem}p{margin:.5rem 0}"
    "ul{margin:.25rem 0;padding-left:1.25rem}dl{margin:1.25rem 0;padding:1rem 0;border:solid var(--line);border-width:1px 0}"
    "dt{color:var(--soft);font-size:.875rem}dd{margin:0 0 .5rem}dd:last-child{margin:0}.soft{color:var(--soft);font-size:.875rem}"
    ".choice{display:flex;gap:.5rem;align-items:center;min-height:2.75rem}"
    ".buttons{display:flex;flex-direction:row-reverse;gap:.75rem;margin-top:1.5rem}"
    "button{flex:1;min-height:2.75rem;font:inherit;font-weight:600;padding:.5rem 1rem;border:1px solid var(--line);"
    "border-radius:.5rem;background:none;color:var(--text);cursor:pointer}"
    "button.main{background:var(--main);border-color:var(--main);color:var(--on)}"
    "button:focus-visible,input:focus-visible,a:focus-visible{outline:3px solid var(--main);outline-offset:2px}a{color:var(--main)}"
    "@media(max-width:34rem){main{margin:0;min-height:100vh;border:0;border-radius:0;padding:1.5rem 1.25rem}"
    ".buttons{flex-direction:column}}"
)
_WORDS: Final[Mapping[str, str]] = {OFFLINE: "Stay connected while you are away"}
"""What is said of scopes that every server may have."""
_IMAGE: Final = re.compile(r"data:image/(?:png|jpeg|webp|gif|svg\+xml);base64,[A-Za-z0-9+/=]+")
_HOST: Final = re.compile(r"[A-Za-z0-9.-]+(?::[0-9]+)?|\[[0-9a-fA-F:]+\](?::[0-9]+)?")
MAX_ICON: Final = 64 * 1024
"""The maximum length of an icon that is part of the page, in characters."""


@dataclass(frozen=True, slots=True)
class ServerFace:
    """What users are told of the server that a client wants to use."""

    title: str = ""
    """Its name for people; empty if it is not known."""
    icon: str = ""
    """The URL of its icon; empty if there is none."""
    dark_icon: str = ""
    """The same for a dark page."""

    @classmethod
    def of(cls, info: Mapping[str, Json]) -> ServerFace:
        """Return what a server says of itself. Icons that are neither https nor a small image in the URL are left out."""
        icons: dict[bool, str] = {}
        listed: Sequence[Mapping[str, Json]] = info.get("icons") or ()
        for icon in listed:
            if _policy_of(str(icon["src"])):
                icons.setdefault(icon.get("theme") == "dark", str(icon["src"]))
        title = info.get("title") or info.get("name") or ""
        return cls(str(title), icons.get(False, icons.get(True, "")), icons.get(True, ""))

    @property
    def images(self) -> tuple[str, ...]:
        """The sources of images for the policy of a page."""
        return tuple(dict.fromkeys(_policy_of(url) for url in (self.icon, self.dark_icon) if url))


def _policy_of(url: str) -> str:
    """Return the source of a policy that allows an icon; empty for an icon that is not shown."""
    if _IMAGE.fullmatch(url):
        return "data:" if len(url) <= MAX_ICON else ""
    parts = urlsplit(url) if is_secure(url) else None
    return f"{parts.scheme}://{parts.netloc}" if parts and _HOST.fullmatch(parts.netloc) else ""


class LoginPages:
    """Makes pages in one style, with the header fields that allow it."""

    def __init__(self, stylesheet: str | None = None) -> None:
        """`stylesheet` is CSS that comes after the style of the pages. Raises `ValueError` if it ends the style element."""
        if stylesheet is not None and "</" in stylesheet:
            raise ValueError("`stylesheet` must be CSS, without the characters </")
        self._style = _STYLE + (stylesheet or "")
        self._hash = b64encode(hashlib.sha256(self._style.encode()).digest()).decode()

    def fields(self, images: Sequence[str] = ()) -> tuple[tuple[bytes, bytes], ...]:
        """Return the header fields of a page that shows images of these sources."""
        shown = f"img-src {' '.join(images)}; " if images else ""
        policy = f"default-src 'none'; {shown}style-src 'sha256-{self._hash}'; frame-ancestors 'none'; base-uri 'none'"
        return (
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", policy.encode()),
            (b"x-frame-options", b"DENY"),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
        )

    def html(self, title: str, body: str) -> bytes:
        """Return a page with a title, which is text, and a body, which is HTML."""
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<style>{self._style}</style></head><body><main>{body}</main></body></html>"
        ).encode()

    def message(self, message: str) -> bytes:
        """Return a page with a message that leads nowhere."""
        return self.html("Login", f"<h1>This did not work</h1><p>{escape(message)}</p>")


STANDARD: Final = LoginPages()
"""The pages of servers without a style of their own."""


@dataclass(frozen=True, slots=True)
class Consent:
    """What a consent page asks for."""

    client: ClientRecord
    request: AuthorizationRequest
    server: ServerFace
    provider: str = ""
    """Where the user logs in next; empty if not at a provider."""
    words: Mapping[str, str] | None = None
    """What scopes mean, in words."""
    users: Sequence[str] = ()
    """The users among whom the page lets choose."""

    def body(self, sealed: str, action: str) -> str:
        """Return the HTML of the page; its form carries the sealed request."""
        name = escape(self.client.name) if self.client.name else "An app without a name"
        title = f"<bdi>{escape(self.server.title)}</bdi>" if self.server.title else "this server"
        return (
            f"{self._icon()}<h1>Allow <bdi>{name}</bdi> to use {title}?</h1>"
            f"<p><strong><bdi>{name}</bdi></strong> asks for access in your name. "
            "It chose this name itself: go on only if you have just started to connect it.</p>"
            f"{self._scopes()}{self._facts()}"
            f'<form method="post" action="{escape(action)}"><input type="hidden" name="request" value="{escape(sealed)}">'
            f"{self._choice()}{self._next()}"
            '<div class="buttons"><button class="main" name="decision" value="allow">Allow</button>'
            '<button name="decision" value="deny">Deny</button></div></form>'
        )

    def _icon(self) -> str:
        if not self.server.icon:
            return ""
        dark = self.server.dark_icon
        source = f'<source media="(prefers-color-scheme: dark)" srcset="{escape(dark)}">' if dark else ""
        return f'<picture>{source}<img class="icon" alt="" src="{escape(self.server.icon)}"></picture>'

    def _scopes(self) -> str:
        if not self.request.scopes:
            return ""
        said = {**_WORDS, **(self.words or {})}
        listed = "".join(
            (
                f'<li>{escape(said[scope])} <span class="soft">({escape(scope)})</span></li>'
                if scope in said
                else f"<li>{escape(scope)}</li>"
            )
            for scope in self.request.scopes
        )
        return f"<h2>It may</h2><ul>{listed}</ul>"

    def _facts(self) -> str:
        rows = [("Server", self.request.resource), ("Sends you back to", host_of(self.request.redirect_uri))]
        if self.client.is_document:
            rows.insert(0, ("App is published by", urlsplit(self.client.client_id).netloc))
        listed = "".join(f"<dt>{escape(term)}</dt><dd>{escape(said)}</dd>" for term, said in rows)
        return f"<dl>{listed}</dl>"

    def _choice(self) -> str:
        return "".join(
            f'<label class="choice"><input type="radio" name="user" value="{escape(user)}"{"" if at else " checked"}> '
            f"{escape(user)}</label>"
            for at, user in enumerate(self.users)
        )

    def _next(self) -> str:
        if not self.provider:
            return ""
        return f'<p class="soft">If you allow it, you log in at {escape(self.provider)}.</p>'
