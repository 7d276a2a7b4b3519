"""The pages that users see: plain HTML without scripts, in which every foreign text is escaped.

The policy of the pages has no `form-action`: browsers apply it to the redirects that follow a form too, and these lead
to the identity provider and back to the client.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import Final
from urllib.parse import urlsplit

from mcprev.auth.authorization_server.requests import AuthorizationRequest, ClientRecord, host_of

_STYLE: Final = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem}"
    "dt{font-weight:600}dd{margin:0 0 .5rem;overflow-wrap:anywhere}button{font:inherit;padding:.4rem 1.2rem}"
)
_HASH: Final = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
PAGE_FIELDS: Final = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        f"default-src 'none'; style-src 'sha256-{_HASH}'; frame-ancestors 'none'; base-uri 'none'".encode(),
    ),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


def consent_page(
    client: ClientRecord, request: AuthorizationRequest, sealed: str, users: Sequence[str], action: str
) -> bytes:
    """Return the page that asks whether a client may have access; its form carries the sealed request."""
    name = client.name or "An app without a name"
    rows = [("Server", request.resource), ("Sends you back to", host_of(request.redirect_uri))]
    if client.is_document:
        rows.insert(0, ("App is published by", urlsplit(client.client_id).netloc))
    if request.scopes:
        rows.append(("Permissions", ", ".join(request.scopes)))
    listed = "".join(f"<dt>{escape(term)}</dt><dd>{escape(said)}</dd>" for term, said in rows)
    chosen = "".join(
        f'<p><label><input type="radio" name="user" value="{escape(user)}"{" checked" if not at else ""}> '
        f"{escape(user)}</label></p>"
        for at, user in enumerate(users)
    )
    return _page(
        "Allow access?",
        f"<h1>Allow access?</h1><p><strong>{escape(name)}</strong> asks for access in your name. "
        "It chose this name itself: go on only if you have just started to connect it.</p>"
        f'<dl>{listed}</dl><form method="post" action="{escape(action)}">'
        f'<input type="hidden" name="request" value="{escape(sealed)}">{chosen}'
        '<button name="decision" value="allow">Allow</button> '
        '<button name="decision" value="deny">Deny</button></form>',
    )


def message_page(message: str) -> bytes:
    """Return a page with a message that leads nowhere."""
    return _page("Login", f"<h1>This did not work</h1><p>{escape(message)}</p>")


def _page(title: str, body: str) -> bytes:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>{body}</body></html>'
    ).encode()
