"""The extension for user interfaces, `io.modelcontextprotocol/ui` (SEP-1865): pages that hosts show for the results of tools.

A server registers an HTML page as a resource and names its URI in the `_meta` of tools. A host reads the page and shows it
in a sandbox. A client that has not declared the extension sees neither: for it, the tools are ordinary ones.

For servers: `App.ui`, `UserInterface`, `ToolInterface`, `Csp`. For clients: `HOST`, `tool_interface`, `for_model`,
`for_app`, `read_page`. What a page and its host say to each other is not part of this module.
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from typing_extensions import Unpack

from mcprev.core.capabilities import extension_settings
from mcprev.errors import Json, RemoteProtocolError
from mcprev.extensions.extension import Extension
from mcprev_types import ABSENT
from mcprev_types.latest import models

if TYPE_CHECKING:
    from mcprev.client.methods import Methods
    from mcprev.client.options import Options
    from mcprev.server.context import Context

NAME: Final = "io.modelcontextprotocol/ui"
"""The name of the extension."""
MIME_TYPE: Final = "text/html;profile=mcp-app"
"""The MIME type of pages."""
HOST: Final[Extension[object, object]] = Extension(NAME, {"mimeTypes": [MIME_TYPE]})
"""What a client declares that shows pages: `mcprev.connect(target, extensions=[HOST])`."""
SERVER: Final[Extension[object, object]] = Extension(NAME)
"""What a server declares that has pages. An app with `App.ui` does so itself."""
Visibility: TypeAlias = Literal["model", "app"]
"""Who sees and calls a tool: the model, or the page, through its host."""
Permission: TypeAlias = Literal["camera", "microphone", "geolocation", "clipboardWrite"]
"""A feature of the browser that a page asks for."""
MAX_HTML: Final = 8 * 1024 * 1024
"""The maximum size of a page in characters."""
MAX_ORIGINS: Final = 100
"""The maximum number of origins in one list."""
EVERYONE: Final[frozenset[Visibility]] = frozenset({"model", "app"})
_APP: Final[frozenset[Visibility]] = frozenset({"app"})
_POLICIES: Final[Mapping[Permission, str]] = {
    "camera": "camera", "microphone": "microphone", "geolocation": "geolocation", "clipboardWrite": "clipboard-write",
}  # fmt: skip
"""The name of each permission in the permissions policy of browsers."""
_URI: Final = re.compile(r"ui://[!$&-;=@-Z_a-z~%]{1,500}")
_LINK: Final = re.compile(rf"[^:/\x00-\x1f\x7f]{{0,200}}{_URI.pattern}")
"""The same for a client: a client of several servers adds a prefix."""
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ORIGIN: Final = re.compile(
    rf"(?:https?|wss?)://(?:(?:\*\.{_LABEL}\.)?(?:{_LABEL}\.)*{_LABEL})(?::[0-9]{{1,5}})?"
)
_DOMAIN: Final = re.compile(r"[A-Za-z0-9.-]{1,253}")
_DOCTYPE: Final = re.compile(
    r"\ufeff?\s*+(?:<!--(?>.*?-->)\s*+)*+<!doctype html[\s>]", re.IGNORECASE | re.DOTALL
)
_logger: Final = logging.getLogger("mcprev.extensions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Csp:
    """The origins that a page may use, from which the host makes its content security policy. Default: none.

    An origin is a scheme, a host and perhaps a port, such as `https://api.example.com`; `https://*.example.com` stands
    for all subdomains. Raises `ValueError` for anything else, and for more than 100 origins in a list.
    """

    connect_domains: Collection[str] = ()
    """Origins of requests and WebSockets."""
    resource_domains: Collection[str] = ()
    """Origins of scripts, styles, images, fonts and media."""
    frame_domains: Collection[str] = ()
    """Origins of frames inside the page."""
    base_uri_domains: Collection[str] = ()
    """Origins of the page's `<base>`."""

    def __post_init__(self) -> None:
        """Check the origins."""
        for each in fields(self):
            given: Collection[str] = getattr(self, each.name)
            if isinstance(given, str):
                raise ValueError(f"`{each.name}` is one string; pass several in a list")  # noqa: TRY004
            if len(given) > MAX_ORIGINS:
                raise ValueError(f"`{each.name}` has more than {MAX_ORIGINS} origins")
            for origin in given:
                if not is_origin(origin):
                    raise ValueError(
                        f"`{each.name}`: {origin!r:.80} is not an origin; use a scheme, a host and perhaps a port, as in "
                        "'https://api.example.com' or 'https://*.example.com'"
                    )
            object.__setattr__(self, each.name, tuple(given))

    def to_wire(self) -> dict[str, Json]:
        """Return the member `csp`."""
        return {
            _camel(each.name): list(found) for each in fields(self) if (found := getattr(self, each.name))
        }

    def policy(self) -> str:
        """Return the value of the header `Content-Security-Policy` with which a host shows the page."""
        resources = " ".join(("", *self.resource_domains))
        connect = " ".join(("'self'", *self.connect_domains)) if self.connect_domains else "'none'"
        return (
            f"default-src 'none'; script-src 'self' 'unsafe-inline'{resources}; "
            f"style-src 'self' 'unsafe-inline'{resources}; connect-src {connect}; img-src 'self' data:{resources}; "
            f"font-src 'self'{resources}; media-src 'self' data:{resources}; "
            f"frame-src {' '.join(self.frame_domains) or _NONE}; object-src 'none'; "
            f"base-uri {' '.join(self.base_uri_domains) or _SELF}"
        )


_NONE: Final = "'none'"
_SELF: Final = "'self'"


def is_origin(text: object) -> bool:
    """Return whether a text is an origin, and so cannot change the meaning of a policy that contains it."""
    return isinstance(text, str) and len(text) <= 253 and _ORIGIN.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class ToolInterface:
    """The part of a tool's `_meta` about its page. Raises `ValueError` for an invalid URI and for other words."""

    uri: str | None
    """The URI of the page that shows the results; None for a tool that only a page calls."""
    visibility: Collection[Visibility] = EVERYONE
    """Who sees and calls the tool: `model`, `app` (the page), or both."""

    def __post_init__(self) -> None:
        """Check the members."""
        if self.uri is not None:
            check_page_uri(self.uri, _LINK)
        found = frozenset[Visibility](self.visibility)
        if isinstance(self.visibility, str) or found - EVERYONE:
            raise ValueError(
                f"`visibility` is {self.visibility!r:.80}; use 'model', 'app' or both, in a list"
            )
        object.__setattr__(self, "visibility", found)

    def renamed(self, change: Callable[[str], str]) -> ToolInterface:
        """Return the interface with another URI."""
        return self if self.uri is None else ToolInterface(change(self.uri), self.visibility)

    @property
    def meta(self) -> dict[str, Json]:
        """The `_meta` of the tool."""
        said: dict[str, Json] = {} if self.uri is None else {"resourceUri": self.uri}
        if self.visibility != EVERYONE:
            said["visibility"] = sorted(self.visibility, reverse=True)
        return {"ui": said}


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInterface:
    """A page of a server, as `App.ui` registers it.

    Raises `ValueError` for a URI, a page or a member that is not valid, and `OSError` for a file that cannot be read.
    """

    uri: str
    """The URI of the page, such as `ui://clock`."""
    html: str | Path
    """The page, an HTML5 document, or the path of its file, which is read at once. Afterwards, this is the text."""
    name: str = ""
    """The name of the resource. Default: the URI without its scheme."""
    title: str | None = None
    """The name that hosts display."""
    description: str | None = None
    """A description of the page."""
    csp: Csp | None = None
    """The origins that the page may use. None: no other than its own."""
    permissions: Collection[Permission] = ()
    """The features of the browser that the page asks for."""
    domain: str | None = None
    """The origin that the host gives to the page, in the form that the host documents. None: the host chooses."""
    prefers_border: bool | None = None
    """Whether the host draws a border and a background. None: the host decides."""

    def __post_init__(self) -> None:
        """Read the file, and check the members."""
        check_page_uri(self.uri)
        html = self.html.read_text(encoding="utf-8") if isinstance(self.html, Path) else self.html
        if len(html) > MAX_HTML:
            raise ValueError(f"the page of '{self.uri}' has more than {MAX_HTML} characters")
        if _DOCTYPE.match(html) is None:
            hint = "; for the path of a file, pass a pathlib.Path" if len(html) < 256 else ""
            raise ValueError(f"the page of '{self.uri}' does not begin with <!doctype html>{hint}")
        if isinstance(self.permissions, str) or set(self.permissions) - _POLICIES.keys():
            raise ValueError(
                f"`permissions` is {self.permissions!r:.80}; use a list of {', '.join(_POLICIES)}"
            )
        if self.domain is not None and _DOMAIN.fullmatch(self.domain) is None:
            raise ValueError(f"`domain` is {self.domain!r:.80}, which is not the name of a host")
        object.__setattr__(self, "html", html)
        object.__setattr__(self, "name", self.name or self.uri.removeprefix("ui://"))

    @property
    def app_only(self) -> ToolInterface:
        """The interface of a tool that the page calls and the model does not see: `@app.tool(ui=clock.app_only)`."""
        return ToolInterface(self.uri, _APP)

    @property
    def meta(self) -> dict[str, Json]:
        """The `_meta` of the resource and of its contents."""
        said: dict[str, Json] = {
            "csp": None if self.csp is None else self.csp.to_wire(),
            "permissions": {name: {} for name in _POLICIES if name in self.permissions} or None,
            "domain": self.domain,
            "prefersBorder": self.prefers_border,
        }
        return {"ui": {member: value for member, value in said.items() if value is not None}}

    def contents(self, uri: str | None = None) -> models.TextResourceContents:
        """Return the contents of the resource; `uri` is the URI that a client reads it by, if that is another one."""
        return models.TextResourceContents(
            uri=uri or self.uri, mime_type=MIME_TYPE, text=cast("str", self.html), meta=self.meta
        )


def interface_of(ui: UserInterface | ToolInterface) -> ToolInterface:
    """Return the interface of a tool whose results a page shows, or that is given. Raises `TypeError`."""
    if isinstance(ui, UserInterface):
        return ToolInterface(ui.uri)
    if not isinstance(
        ui, ToolInterface
    ):  # pyright: ignore[reportUnnecessaryIsInstance] - of a caller without types
        raise TypeError(f"`ui` is what `App.ui` returns, and not a {type(ui).__name__}")
    return ui


def check_page_uri(uri: str, pattern: re.Pattern[str] = _URI) -> None:
    """Raise `ValueError` for a URI that no page can have."""
    if pattern.fullmatch(uri) is None:
        raise ValueError(f"{uri!r:.80} is not the URI of a page; use 'ui://' and a name, as in 'ui://clock'")


def shown_to(ctx: Context) -> bool:
    """Return whether the client of a request shows pages: it has declared the extension, and its revision can name them.

    Tools have `_meta` only since some revision.
    """
    settings = extension_settings(ctx.capabilities, NAME)
    types: Json = None if settings is None else settings.get("mimeTypes")
    return (
        isinstance(types, list)
        and MIME_TYPE in types
        and ctx.client_supports(NAME)
        and "meta" in ctx.request.revision.models.Tool.model_fields
    )


# -- clients -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Page:
    """A page that a client has read, with what its server asks for. The HTML is the server's: show it in a sandbox."""

    uri: str
    html: str
    csp: Csp
    """The origins that it may use. What is not an origin is left out."""
    permissions: frozenset[Permission]
    domain: str | None
    prefers_border: bool | None

    @property
    def allow(self) -> str:
        """The value of the attribute `allow` of the frame, with the features that the page asks for."""
        return "; ".join(_POLICIES[name] for name in _POLICIES if name in self.permissions)


def tool_interface(tool: models.Tool) -> ToolInterface | None:
    """Return what a tool's `_meta` says of its page, or None if it says nothing.

    The tool is of a server, so what is not valid is left out: a URI that no page has, and other words for who sees the
    tool. If no valid word is left, neither the model nor the page sees the tool.
    """
    meta = _object(tool.meta)
    said = _object(meta.get("ui"))
    uri: Json = said.get("resourceUri", meta.get("ui/resourceUri"))
    if not isinstance(uri, str) or _LINK.fullmatch(uri) is None:
        uri = None
    visible: Any = said.get("visibility")
    if not isinstance(visible, list):
        return None if uri is None else ToolInterface(uri)
    return ToolInterface(uri, [who for who in EVERYONE if who in visible])


def for_model(tools: Iterable[models.Tool]) -> Iterator[models.Tool]:
    """Yield the tools that the model may see and call."""
    return (tool for tool in tools if _sees("model", tool))


def for_app(tools: Iterable[models.Tool]) -> Iterator[models.Tool]:
    """Yield the tools that a page of the same server may call."""
    return (tool for tool in tools if _sees("app", tool))


def _sees(who: Visibility, tool: models.Tool) -> bool:
    found = tool_interface(tool)
    return found is None or who in found.visibility


async def read_page(client: Methods, ui: str | ToolInterface, **options: Unpack[Options]) -> Page:
    """Read a page from the server, by its URI or by what `tool_interface` returns.

    Raises `ValueError` for a URI that is not that of a page, `RemoteProtocolError` for contents of another URI or MIME type
    and for a page that is too large, and the errors of `Client.read_resource`.
    """
    uri = (ui.uri or "") if isinstance(ui, ToolInterface) else ui
    check_page_uri(uri, _LINK)
    result = await client.read_resource(uri, **options)
    if len(result.contents) != 1 or result.contents[0].uri != uri:
        raise RemoteProtocolError(f"'{uri}' is not read as one page with this URI", raw=result.to_wire())
    [found] = result.contents
    if _bare(found.mime_type) != MIME_TYPE:
        raise RemoteProtocolError(f"'{uri}' has another MIME type than {MIME_TYPE}", raw=result.to_wire())
    html = found.text if isinstance(found, models.TextResourceContents) else _decoded(found)
    if len(html) > MAX_HTML:
        raise RemoteProtocolError(f"'{uri}' has more than {MAX_HTML} characters")
    said = _object(_object(found.meta).get("ui"))
    csp = _object(said.get("csp"))
    origins = {each.name: _origins(csp.get(_camel(each.name)), uri) for each in fields(Csp)}
    domain, border = said.get("domain"), said.get("prefersBorder")
    return Page(
        uri=uri,
        html=html,
        csp=Csp(**origins),
        permissions=frozenset(name for name in _POLICIES if name in _object(said.get("permissions"))),
        domain=domain if isinstance(domain, str) and _DOMAIN.fullmatch(domain) else None,
        prefers_border=border if isinstance(border, bool) else None,
    )


def _origins(given: Json, uri: str) -> list[str]:
    """Return the origins of a list that a server sends; others would change the policy, and are left out."""
    several: list[Json] = cast("Any", given) if isinstance(given, list) else []
    found = [each for each in several[:MAX_ORIGINS] if is_origin(each)]
    if len(found) < len(several):
        _logger.warning("'%s' names %d sources that are not origins", uri, len(several) - len(found))
    return found


def _decoded(contents: models.BlobResourceContents) -> str:
    try:
        return base64.b64decode(contents.blob, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise RemoteProtocolError(f"'{contents.uri}' is not HTML in UTF-8") from None


def _bare(mime_type: Any) -> str | None:  # noqa: ANN401 - a member that may be absent
    return re.sub(r"[\s\"]", "", mime_type).lower() if isinstance(mime_type, str) else None


def _object(value: Any) -> Mapping[str, Json]:  # noqa: ANN401 - a JSON value or a model
    """Return a JSON object; an empty one for anything else."""
    if value is None or value is ABSENT:
        return {}
    wire: Any = value.to_wire() if hasattr(value, "to_wire") else value
    return cast("Mapping[str, Json]", wire) if isinstance(wire, Mapping) else {}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
