"""A call or message as text to use elsewhere: a line of `mcprev call`, of `curl`, a test, or JSON. Secrets are masked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from mcprev.dev.calls import member_text
from mcprev.dev.saving import masked_headers
from mcprev.errors import Json
from mcprev.hosts.masking import masked_words
from mcprev.hosts.named_server import is_url
from mcprev.json_schema.redaction import Redactor
from mcprev.platforms import HERE
from mcprev.transports.http.urls import mask_url
from mcprev.wire.json_values import is_json_object

if TYPE_CHECKING:
    from mcprev.dev.calls import PageCall
    from mcprev.dev.events import SeenEvent
    from mcprev.dev.inspector import Inspector

FORMS: Final = ("command", "curl", "pytest", "json")
MOST: Final = 1024 * 1024
"""The maximum length of a message that is copied, in bytes."""
_TOOL: Final = "tools/call"
_LEFT_OUT: Final = frozenset({"content-length", "host", "accept-encoding", "user-agent", "connection"})
"""Headers that curl sends itself."""
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""A method or the name of a header: curl reads a header that begins with @ as the name of a file."""


class CannotCopy(ValueError):
    """Something that has no such form."""


def copied_call(inspector: Inspector, call: PageCall, kind: str) -> str:
    """Return a call in one of `FORMS`. Raises `CannotCopy`."""
    if kind == "command":
        return _command(inspector, call.method, call.params, call.revision)
    if kind == "pytest":
        return _test(inspector, call.method, call.params, call.revision)
    event = None if call.first is None else inspector.log.get(call.first)
    if event is None:
        raise CannotCopy("the call was not sent, or its messages are no longer kept")
    return copied_event(inspector, event, kind)


def copied_event(inspector: Inspector, event: SeenEvent, kind: str) -> str:
    """Return a message in one of `FORMS`. Raises `CannotCopy`."""
    body = inspector.log.body(event.n)
    if body is None or len(body) > MOST:
        raise CannotCopy(f"the message is no longer kept, or has more than {MOST} bytes")
    if kind == "curl":
        return _curl(event, body)
    masked = Redactor().message(body)
    if kind == "json":
        return _indented(masked)
    if event.shape != "request" or event.dir != "out" or event.method is None:
        raise CannotCopy("only a request of the client can be copied in this form")
    text = member_text(masked.decode(errors="replace"), "params")
    params: Json = {} if text is None else json.loads(text)
    if not is_json_object(params):
        raise CannotCopy("the params are not an object")
    meta: object = params.get("_meta")
    if isinstance(meta, dict):
        # What the client adds to each request itself.
        params = {name: value for name, value in params.items() if name != "_meta"}
    make = _command if kind == "command" else _test
    return make(inspector, event.method, params, event.revision)


def _indented(body: bytes) -> str:
    try:
        found: Json = json.loads(body)
    except (ValueError, RecursionError):
        return body.decode(errors="backslashreplace")
    text = json.dumps(found, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


# -- a command -----------------------------------------------------------------------------------------------


def _command(inspector: Inspector, method: str, params: dict[str, Json], revision: str | None) -> str:
    """Return a line of `mcprev call`, `read`, `prompt` or `complete`."""
    shown: dict[str, Json] = Redactor().json(params)
    words = _words(inspector)
    server, after = ([], words) if words[:1] == ["--"] else (words, [])
    name: Json = shown.get("name")
    arguments: Json = shown.get("arguments") or {}
    match method:
        case "tools/call":
            rest = ["call", *server, str(name), json.dumps(arguments)]
        case "prompts/get":
            rest = ["prompt", *server, str(name), json.dumps(arguments)]
        case "resources/read":
            rest = ["read", *server, str(shown.get("uri"))]
        case _:
            raise CannotCopy(f"there is no command that calls {method}; copy it as a test")
    subject = rest[1 + len(server)]
    if subject.startswith("-"):
        raise CannotCopy(f"{subject!r:.100} would be read as an option; copy it as a test")
    if revision is not None:
        rest[1:1] = ["--revision", revision]
    if inspector.pages:
        rest[1:1] = ["--pages"]
    return _line(["mcprev", *rest, *after])


def _words(inspector: Inspector) -> list[str]:
    """Return the words that name the server. Raises `CannotCopy` for a session that was read from a file."""
    words = inspector.launcher.words
    if not words:
        raise CannotCopy("the session was read from a file, which names no server to call; copy it as JSON")
    return masked_words(words)


# -- curl ----------------------------------------------------------------------------------------------------


def _curl(event: SeenEvent, body: bytes) -> str:
    exchange = event.exchange
    if exchange is None or event.dir != "out":
        raise CannotCopy("this was not sent over HTTP; connect to the server over HTTP to copy it for curl")
    if not is_url(exchange.url) or not _NAME.fullmatch(exchange.verb):
        raise CannotCopy("its URL or method is not one of HTTP; copy it as JSON")
    words = ["curl", "-N", "--globoff", "-X", exchange.verb, "--url", mask_url(exchange.url)]
    for name, value in masked_headers(exchange.sent):
        if not _NAME.fullmatch(name):
            raise CannotCopy(f"{name!r:.100} is not a header name; copy it as JSON")
        if name.lower() not in _LEFT_OUT:
            words += ["-H", f"{name}: {value}"]
    if body:
        words += ["--data-raw", Redactor().message(body).decode(errors="replace")]
    return _line(words)


def _line(words: list[str]) -> str:
    """Return a line for a shell. Raises `CannotCopy` for what a terminal could take for something else."""
    line = HERE.joined(words)
    if not line.isprintable():
        raise CannotCopy(
            "it contains control characters, which a terminal would interpret; copy it as a test or as JSON"
        )
    return line


# -- a test --------------------------------------------------------------------------------------------------


def _test(inspector: Inspector, method: str, params: dict[str, Json], revision: str | None) -> str:
    """Return a test of pytest that makes the call."""
    shown: dict[str, Json] = Redactor().json(params)
    options = "" if revision is None else f", revisions=[{revision!r}]"
    options += ", extensions=[HOST]" if inspector.pages else ""
    if method == _TOOL:
        arguments: Json = shown.get("arguments") or {}
        call = f"client.call_tool({str(shown.get('name'))!r}, {arguments!r})"
        check = "assert not result.is_error, result.text"
    else:
        call = f"client.raw({method!r}, {shown!r})"
        check = "assert result"
    return "\n".join([
        "import asyncio",
        "",
        "import mcprev",
        *(["from mcprev.extensions.ui import HOST"] if inspector.pages else []),
        "",
        "",
        "def test_call() -> None:",
        "    async def scenario() -> None:",
        f"        async with mcprev.connect({_target(inspector)}{options}) as client:",
        f"            result = await {call}",
        f"        {check}",
        "",
        "    asyncio.run(scenario())",
        "",
    ])  # fmt: skip


def _target(inspector: Inspector) -> str:
    """Return the target of `connect` as Python code: only literals, whatever the words are."""
    words = _words(inspector)
    if inspector.launcher.kind == "url":
        return repr(words[0])
    if inspector.launcher.kind == "app":
        words = ["mcprev", "serve", words[0]]
    return f"mcprev.stdio({', '.join(map(repr, words[1:] if words[:1] == ['--'] else words))})"
