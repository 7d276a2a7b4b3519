"""Requests of the HTTP API behind an OpenAPI document: an operation, its arguments and its responses.

An argument never leaves its place: it stays within its segment of the path, its part of the query, and its header, and
sets no parameter of another name. The time and size of responses are bounded, no redirection leads to another host,
and the model reads no credentials of the requests.
"""

from __future__ import annotations

import html
import json
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote

from pydantic_core import from_json

from mcprev.app.openapi.forms import FormBody
from mcprev.app.openapi.parameters import ApiArgument, defined, plain_name
from mcprev.app.openapi.secrets import Secrets, credentials
from mcprev.errors import Json, MissingExtra, ToolError
from mcprev.json_schema.bounds import OBJECT, ValidationIssue, Validator
from mcprev.json_schema.validation import describe
from mcprev_types.latest import models

try:
    import aiohttp
    from yarl import URL
except ImportError as _error:
    raise MissingExtra("calling the API of an OpenAPI document", "aiohttp", "http") from _error

if TYPE_CHECKING:
    from mcprev.app.openapi.asgi import AsgiResponse, AsgiSession

HttpSession: TypeAlias = "aiohttp.ClientSession | AsgiSession"
_logger: Final = logging.getLogger("mcprev.server")
TIMEOUT: Final = aiohttp.ClientTimeout(total=30)
MAX_BODY: Final = 1024 * 1024
"""The maximum size of a response in bytes, after decompression."""
MAX_EXCERPT: Final = 500
"""The maximum number of characters of an unsuccessful response that the model reads."""
MAX_REDIRECTS: Final = 5
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
DECODED: Final = 4
"""How often a path may be decoded before a segment of it is looked for."""
TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_HIDDEN: Final = re.compile(r"<(!--|script|style)", re.IGNORECASE)
_HIDDEN_ENDS: Final = {
    name: re.compile(end, re.IGNORECASE)
    for name, end in {"": ">", "!--": "-->", "script": "(?=</script)", "style": "(?=</style)"}.items()
}
"""What ends a tag of HTML, a comment, and what is no text of the page."""
JSON_TYPE: Final = re.compile(r"application/(?:[\w.-]+\+)?json|\*/\*", re.IGNORECASE)


class ApiError(ToolError):
    """The API responded with a status that is no success."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Operation:
    """One operation: a tool that sends a request of the HTTP API."""

    def __init__(
        self,
        api: Backend,
        method: str,
        path: str,
        arguments: Mapping[str, ApiArgument],
        *,
        body: bool,
        form: FormBody | None = None,
        keys: Collection[tuple[str, str]] = (),
    ) -> None:
        """`form` is how the body is written if it is not JSON; `keys` are the places and names of the credentials that the document declares."""
        self._api, self._method, self._path = api, method.upper(), path
        self._arguments, self._body, self._form = arguments, body, form
        self._parameters = {one.place: Counter[str]() for one in arguments.values()}
        """How many arguments and credentials set the parameters of a name, by their places."""
        for place, key in [*keys, *((one.place, key) for one in arguments.values() for key in one.names)]:
            self._parameters.setdefault(place, Counter())[key] += 1
        self.answer: Validator | None = None
        """Checks the object that the API returns, if the tool has an output schema."""
        self.__name__: str = f"{self._method} {path}"

    async def __call__(self, arguments: dict[str, Json]) -> models.CallToolResult:
        """Send the request and return the response. Raises `ToolError`."""
        path, query, cookies, body, whole = self._path, list[str](), list[str](), dict[str, Json](), False
        headers = {"Accept": "application/json, text/*;q=0.9, */*;q=0.1", **self._api.headers}
        given, ours = set[str](), self._api.parameters_of_ours()
        members: Json = body
        for name, sent in arguments.items():
            argument = self._arguments[name]
            if argument.place == "member":
                body[argument.name] = sent
                continue
            value = sent if argument.place == "body" or argument.style == "json" else defined(sent)
            if (
                value is None
                and (argument.place in {"query", "header", "cookie"})
                and not (argument.style == "json" and argument.required)
            ):
                continue
            if argument.place == "body":
                members, whole = value, True
            elif argument.place == "path":
                path = path.replace(f"{{{argument.name}}}", _segment(name, argument, value))
            elif argument.place == "header":
                headers[argument.name] = _header(name, unquote(argument.pairs(value, " ")[0][1]))
                given.add(argument.name.lower())
                _refuse_ours(name, "header", [argument.name.lower()], ours)
            else:
                found = argument.pairs(value)
                argument.check(name, value, self._parameters[argument.place])
                _refuse_ours(name, argument.place, (plain_name(unquote(key)) for key, _ in found), ours)
                (query if argument.place == "query" else cookies).extend(map("=".join, found))
        given.update(cookies)
        if _leads_out(path):
            raise ToolError("the path would have the segment '.' or '..'; pass other values")
        if cookies:
            own = next((headers.pop(name) for name in [*headers] if name.lower() == "cookie"), None)
            headers["Cookie"] = "; ".join([*([own] if own else ()), *cookies])
        content = None
        if whole or body or self._body:
            content, kind = json.dumps(members, allow_nan=False).encode(), "application/json"
            if self._form is not None:
                content, kind = await self._form.encoded(members)
            headers["Content-Type"] = kind
        url = URL(self._api.base_url + path + ("?" + "&".join(query) if query else ""), encoded=True)
        return await self._api.send(self, self._method, url, headers, content, given)


def _leads_out(path: str) -> bool:
    """Return whether a path has a segment `.` or `..`, also for servers that decode a path again, or cut it at a `;`."""
    for _ in range(DECODED):
        if any(part.partition(";")[0] in {".", ".."} for part in re.split(r"[/\\]", path)):
            return True
        path = unquote(path)
    return False


def _segment(name: str, argument: ApiArgument, value: Json) -> str:
    """Return a value that stays within its segment of the path."""
    text = "" if value is None else argument.pairs(value)[0][1]
    several = re.search(r"[/\\]", unquote(text)) is not None
    if not text or _leads_out(text) or (several and not argument.reserved):
        raise ToolError(f"'{name}' is empty or would change other segments of the path; pass another value")
    return text


def _refuse_ours(name: str, place: str, keys: Iterable[str], ours: Collection[tuple[str, str]]) -> None:
    """Raise `ToolError` for an argument that sets a header or cookie of the session."""
    if any((place, key) in ours for key in keys):
        raise ToolError(f"'{name}' sets a {place} of the session that calls the API; leave it out")


def _excerpt(text: str, kind: str) -> str:
    """Return the beginning of an unsuccessful response; of a page, that of its text."""
    if "html" in kind or text[:1000].lstrip().lower().startswith(("<!doctype html", "<html")):
        text = _text_of(text)
    return text if len(text) <= MAX_EXCERPT else f"{text[: MAX_EXCERPT - 1]}\u2026"


def _text_of(page: str) -> str:
    """Return the text of a page of HTML, without what is in comments, scripts and styles."""
    found, at = list[str](), 0
    while (start := page.find("<", at)) >= 0:
        found += [page[at:start], " "]
        hidden = _HIDDEN.match(page, start)
        end = _HIDDEN_ENDS["" if hidden is None else hidden[1].lower()].search(page, start + 1)
        at = len(page) if end is None else end.end()
    return " ".join(html.unescape("".join([*found, page[at:]])).split())


def _without(secrets: Secrets, text: str, kind: str) -> str:
    """Return a response without secrets; JSON stays JSON if it can."""
    hidden = secrets.hide(text)
    if hidden != text and JSON_TYPE.fullmatch(kind):
        with suppress(ValueError):
            value = secrets.hide_in(from_json(text, allow_inf_nan=False))
            return secrets.hide(json.dumps(value, ensure_ascii=False))
    return hidden


def _header(name: str, text: str) -> str:
    if _CONTROL.search(text):
        raise ToolError(f"'{name}' has line breaks or control characters; a header cannot hold them")
    return text


class Backend:
    """Where the API is, and how requests are sent."""

    def __init__(self, base_url: str, session: HttpSession | None, headers: Mapping[str, str]) -> None:
        """Set the URL, the session (default: a new one each time) and the headers. Raises `ValueError`."""
        self.base_url: str = base_url
        self.headers: Mapping[str, str] = headers
        self._session = session
        if not re.fullmatch(r"https?://[^/?#\s{}]++(?:/[^?#\s{}]*+)?", self.base_url):
            raise ValueError(
                "the API has no absolute http or https URL without a query and variables; pass one as `base_url`"
            )
        for name, value in self.headers.items():
            if not TOKEN.fullmatch(name) or _CONTROL.search(value):
                raise ValueError(f"`headers` has an invalid name or value at {name!r}; remove line breaks")

    def parameters_of_ours(self) -> set[tuple[str, str]]:
        """Return the places and lower-case names of headers, and the plain names of cookies, that are no arguments."""
        session = self._session
        found = {("header", name.lower()) for name in (*self.headers, *(session.headers if session else ()))}
        own = next((value for name, value in self.headers.items() if name.lower() == "cookie"), "")
        cookies = [each.partition("=")[0] for each in own.split(";") if "=" in each]
        cookies += [cookie.key for cookie in session.cookie_jar] if session else []
        return found | {("cookie", plain_name(name)) for name in cookies}

    async def send(
        self,
        operation: Operation,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        content: bytes | None,
        given: Collection[str],
    ) -> models.CallToolResult:
        """Send a request and return its response, without the credentials of the request. Raises `ToolError`.

        `given` are the names of the headers, and the cookies, that come from arguments.
        """
        found = {*credentials(self.headers)}
        try:
            return await self._send(operation, method, url, headers, content, given, found)
        except ApiError as error:
            raise ApiError(Secrets(found).hide(str(error)), error.status) from None
        except ToolError as error:
            raise ToolError(Secrets(found).hide(str(error))) from None

    async def _send(
        self,
        operation: Operation,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        content: bytes | None,
        given: Collection[str],
        found: set[str],
    ) -> models.CallToolResult:
        """Send a request; add the credentials that it is sent with to `found`."""
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
                        found.update(credentials(response.request_info.headers, given))
                        location = response.headers.get("Location")
                        if location and response.status in REDIRECTS and method in {"GET", "HEAD"}:
                            url = url.join(URL(location))
                            if url.origin() != origin:
                                raise ToolError(f"{name} redirects to another host, which is not followed")
                            continue
                        return await self._result(operation, response, Secrets(found))
                raise ToolError(f"{name} redirects more than {MAX_REDIRECTS} times")
        except TimeoutError:
            raise ToolError(f"{name} did not respond within {TIMEOUT.total:g} s; try again later") from None
        except (aiohttp.ClientError, ValueError, OSError) as error:
            raise ToolError(f"{name} failed: {type(error).__name__}; the API cannot be reached") from None

    async def _result(
        self, operation: Operation, response: aiohttp.ClientResponse | AsgiResponse, secrets: Secrets
    ) -> models.CallToolResult:
        name, body, failed = operation.__name__, bytearray(), not 200 <= response.status < 300
        async for chunk in response.content.iter_chunked(65_536):
            body += chunk
            if len(body) > MAX_BODY:
                if failed:
                    break
                raise ToolError(f"{name} returned more than {MAX_BODY} bytes; request less")
        # Python decodes these two encodings of host names in quadratic time.
        charset = re.sub("(?i)idna|punycode", "utf-8", response.charset or "utf-8")
        kind = response.content_type
        try:
            text = bytes(body).decode(charset, "replace" if failed else "strict")
        except (LookupError, UnicodeError):
            raise ToolError(f"{name} returned {kind}, which is not text") from None
        text = _without(secrets, text, kind)
        if failed:
            excerpt = secrets.hide(_excerpt(text, kind))
            found = f"{name} returned status {response.status}: {excerpt}".rstrip(": ")
            raise ApiError(found, response.status)
        value: Json = None
        is_json = bool(text) and JSON_TYPE.fullmatch(kind) is not None
        if is_json:
            try:
                value = from_json(text, allow_inf_nan=False)
            except ValueError:
                raise ToolError(f"{name} returned invalid JSON") from None
        if operation.answer is not None:
            wrong: list[ValidationIssue] = operation.answer(value) if is_json else [((), "is not JSON")]
            if not wrong:
                return models.CallToolResult(content=[], structured_content=value)
            # A result without its structured content has to be an error; the answer is not lost, and the model told why.
            why = (
                f"{name} returned a response that its document does not allow: {describe(wrong, 'response')}"
            )
            _logger.warning("%s; fix the document, or pass output_schemas=False", why)
            blocks = [
                models.TextContent(
                    text=f"{why}. The request succeeded, so do not repeat it; its response follows."
                )
            ]
            blocks += [models.TextContent(text=text)] if text else []
            return models.CallToolResult(content=[*blocks], is_error=True)
        if isinstance(value, OBJECT):
            return models.CallToolResult(content=[], structured_content=value)
        return models.CallToolResult(content=[models.TextContent(text=text)] if text else [])
