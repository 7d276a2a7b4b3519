"""Requests of the HTTP API behind an OpenAPI document: an operation, its arguments and its answers.

An argument never leaves its place: it stays within its segment of the path, its part of the query, and its header. The
time and size of answers are bounded, and no redirection leads to another host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from pydantic_core import from_json

from mcprev.errors import Json, MissingExtra, ToolError
from mcprev.json_schema.bounds import LIST, OBJECT, Validator
from mcprev.json_schema.validation import describe
from mcprev_types.latest import models

try:
    import aiohttp
    from yarl import URL
except ImportError as _error:
    raise MissingExtra("calling the API of an OpenAPI document", "aiohttp", "http") from _error

TIMEOUT: Final = aiohttp.ClientTimeout(total=30)
MAX_BODY: Final = 1024 * 1024
"""The maximum size of an answer in bytes, after decompression."""
MAX_EXCERPT: Final = 500
"""The maximum number of characters of a failed answer that the model reads."""
MAX_REDIRECTS: Final = 5
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
SEPARATORS: Final[Mapping[tuple[str, str], str]] = {
    ("path", "simple"): ",", ("header", "simple"): ",", ("query", "form"): ",", ("cookie", "form"): ",",
    ("query", "spaceDelimited"): "%20", ("query", "pipeDelimited"): "%7C", ("query", "deepObject"): "",
}  # fmt: skip
"""The styles of parameters by their place, with what stands between several values. The first of a place is its default."""
TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
JSON_TYPE: Final = re.compile(r"application/(?:[\w.-]+\+)?json|\*/\*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Argument:
    """Where an argument goes in a request."""

    name: str
    """The name in the API."""
    place: str
    """`path`, `query`, `header` or `cookie`; `member` of the body or the whole `body`."""
    schema: dict[str, Json]
    required: bool
    style: str = ""
    explode: bool = False
    reserved: bool = False
    """Whether a value in the path may have several segments; many servers decode `%2F` before they route."""

    def pairs(self, value: Json, safe: str = "") -> list[tuple[str, str]]:
        """Return the names and values in a request, percent-encoded."""

        def told(item: Json) -> str:
            return quote(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False), safe=safe)

        if self.style == "json":
            return [(quote(self.name, safe=""), quote(json.dumps(value), safe=safe))]
        name, separator = quote(self.name, safe=""), SEPARATORS[self.place, self.style]
        if isinstance(value, OBJECT):
            members = [(told(key), told(item)) for key, item in value.items()]
            if self.style == "deepObject":
                return [(f"{name}%5B{key}%5D", item) for key, item in members]
            if self.explode and self.style == "form":
                return members
            joined = ["=".join(each) if self.explode else separator.join(each) for each in members]
            return [(name, separator.join(joined))]
        if isinstance(value, LIST):
            if self.explode and self.place in {"query", "cookie"}:
                return [(name, told(item)) for item in value]
            return [(name, separator.join(map(told, value)))]
        return [(name, told(value))]


class Operation:
    """One operation: a tool that sends a request of the HTTP API."""

    def __init__(
        self, api: Backend, method: str, path: str, arguments: Mapping[str, Argument], *, body: bool
    ) -> None:
        self._api, self._method, self._path = api, method.upper(), path
        self._arguments, self._body = arguments, body
        self.answer: Validator | None = None
        """Checks the object that the API answers, if the tool has an output schema."""
        self.__name__: str = f"{self._method} {path}"

    async def __call__(self, arguments: dict[str, Json]) -> models.CallToolResult:
        """Send the request and return the answer. Raises `ToolError`."""
        path, query, cookies, body, whole = self._path, list[str](), list[str](), dict[str, Json](), False
        headers = {"Accept": "application/json, text/*;q=0.9, */*;q=0.1", **self._api.headers}
        members: Json = body
        for name, value in arguments.items():
            argument = self._arguments[name]
            if argument.place == "member":
                body[argument.name] = value
            elif argument.place == "body":
                members, whole = value, True
            elif argument.place == "path":
                path = path.replace(f"{{{argument.name}}}", _segment(name, argument, value))
            elif argument.place == "header":
                headers[argument.name] = _header(name, unquote(argument.pairs(value, " ")[0][1]))
            else:
                pairs = ["=".join(pair) for pair in argument.pairs(value)]
                (query if argument.place == "query" else cookies).extend(pairs)
        if any(part in {".", ".."} for part in re.split(r"[/\\]", unquote(path))):
            raise ToolError("the path would have the segment '.' or '..'; pass other values")
        if cookies:
            own = next((headers.pop(name) for name in [*headers] if name.lower() == "cookie"), None)
            headers["Cookie"] = "; ".join([*([own] if own else ()), *cookies])
        content = None
        if whole or body or self._body:
            content = json.dumps(members, allow_nan=False).encode()
            headers["Content-Type"] = "application/json"
        url = URL(self._api.base_url + path + ("?" + "&".join(query) if query else ""), encoded=True)
        return await self._api.send(self, self._method, url, headers, content)


def _segment(name: str, argument: Argument, value: Json) -> str:
    """Return a value that stays within its segment of the path."""
    text = argument.pairs(value)[0][1]
    parts = re.split(r"[/\\]", unquote(text))
    if not text or {".", ".."} & set(parts) or (len(parts) > 1 and not argument.reserved):
        raise ToolError(f"'{name}' is empty or leads out of its place in the path; pass another value")
    return text


def _header(name: str, text: str) -> str:
    if _CONTROL.search(text):
        raise ToolError(f"'{name}' has line breaks or control characters; a header cannot hold them")
    return text


class Backend:
    """Where the API is, and how requests are sent."""

    def __init__(
        self, base_url: str, session: aiohttp.ClientSession | None, headers: Mapping[str, str]
    ) -> None:
        """Set the URL, the session (default: a new one each time) and the headers. Raises `ValueError`."""
        self.base_url: str = base_url
        self.headers: Mapping[str, str] = headers
        self._session = session
        if not re.fullmatch(r"https?://[^/?#\s{}]+[^?#\s{}]*", self.base_url):
            raise ValueError(
                "the API has no absolute http or https URL without a query and variables; pass one as `base_url`"
            )
        for name, value in self.headers.items():
            if not TOKEN.fullmatch(name) or _CONTROL.search(value):
                raise ValueError(f"`headers` has an invalid name or value at {name!r}; remove line breaks")
        words = {word for value in self.headers.values() for word in (value, *value.split())}
        self._secrets = sorted((word for word in words if len(word) > 3), key=len, reverse=True)

    async def send(
        self, operation: Operation, method: str, url: URL, headers: Mapping[str, str], content: bytes | None
    ) -> models.CallToolResult:
        """Send a request and return its answer. Raises `ToolError`."""
        name, origin = operation.__name__, url.origin()
        opened = aiohttp.ClientSession() if self._session is None else nullcontext(self._session)
        try:
            async with opened as session:
                for _ in range(MAX_REDIRECTS + 1):
                    async with session.request(
                        method,
                        url,
                        headers=headers,
                        data=content,
                        allow_redirects=False,
                        raise_for_status=False,
                        timeout=TIMEOUT,
                    ) as response:
                        location = response.headers.get("Location")
                        if location and response.status in REDIRECTS and method in {"GET", "HEAD"}:
                            url = url.join(URL(location))
                            if url.origin() != origin:
                                raise ToolError(f"{name} redirects to another host, which is not followed")
                            continue
                        return await self._result(operation, response)
                raise ToolError(f"{name} redirects more than {MAX_REDIRECTS} times")
        except TimeoutError:
            raise ToolError(f"{name} did not answer within {TIMEOUT.total:g} s; try again later") from None
        except (aiohttp.ClientError, ValueError, OSError) as error:
            raise ToolError(f"{name} failed: {type(error).__name__}; the API cannot be reached") from None

    async def _result(self, operation: Operation, response: aiohttp.ClientResponse) -> models.CallToolResult:
        name, body, failed = operation.__name__, bytearray(), not 200 <= response.status < 300
        async for chunk in response.content.iter_chunked(65_536):
            body += chunk
            if len(body) > MAX_BODY:
                if failed:
                    break
                raise ToolError(f"{name} answered more than {MAX_BODY} bytes; ask for less")
        # Python decodes these two encodings of host names in quadratic time.
        charset = re.sub("(?i)idna|punycode", "utf-8", response.charset or "utf-8")
        kind = response.content_type
        try:
            text = bytes(body).decode(charset, "replace" if failed else "strict")
        except (LookupError, UnicodeError):
            raise ToolError(f"{name} answered {kind}, which is no text") from None
        if failed:
            for secret in self._secrets:
                text = text.replace(secret, "***")
            raise ToolError(f"{name} answered {response.status}: {text[:MAX_EXCERPT]}".rstrip(": "))
        value: Json = None
        if text and JSON_TYPE.fullmatch(kind):
            try:
                value = from_json(text, allow_inf_nan=False)
            except ValueError:
                raise ToolError(f"{name} answered JSON that cannot be read") from None
        if operation.answer is not None:
            found = operation.answer(value)
            if found:
                raise ToolError(
                    f"{name} answered what its document does not allow: {describe(found, 'answer')}"
                )
        if isinstance(value, OBJECT):
            return models.CallToolResult(content=[], structured_content=value)
        return models.CallToolResult(content=[models.TextContent(text=text)] if text else [])
