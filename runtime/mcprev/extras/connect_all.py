"""Several servers as one: connects to those of the `mcpServers` configuration of hosts (PAGE-1, SEAM-1).

The names of tools and prompts and the URIs of resources begin with the name of their server.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, cast

from pydantic.alias_generators import to_camel
from typing_extensions import Unpack, override

from mcprev.client.calls import result_reader
from mcprev.client.connect import connect
from mcprev.client.methods import Methods
from mcprev.client.options import Options
from mcprev.client.targets import Target, target_of
from mcprev.errors import Json, LocalProtocolError, McpError, ServersFailed

if TYPE_CHECKING:
    from types import TracebackType

    from mcprev.client.callbacks import Elicitation, LogMessage, OnChange, Roots, Sampling
    from mcprev.client.client import Client
    from mcprev.client.request_handler import ClientHandler
    from mcprev.client.server_cache import Policy
    from mcprev.client.session import SessionFactory
    from mcprev.core.reconnect_policy import ReconnectPolicy
    from mcprev.protocol.cache import ResultCache
    from mcprev.revisions import Era
    from mcprev_types import Model
    from mcprev_types.latest import models


SEPARATOR: Final = "__"
Failure: TypeAlias = McpError | OSError
"""Why a server is missing: it cannot be reached, or the file for `record` cannot be written."""
_VARIABLE: Final = re.compile(r"\$\{(?:(env|input|config|command):)?(\w+)(?::-([^}]*))?\}")
_COMMENT: Final = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/|,(?=\s*[\]}])', re.DOTALL)
"""A string, which is kept, or what hosts allow in addition to JSON: a comment, or a comma after the last value."""
_LISTS: Final[Mapping[str, tuple[str, str]]] = {
    # by method: the member with the list, and the member of its items that bears the prefix
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resource_templates", "uri_template"),
}
_CALLS: Final[Mapping[str, str]] = {
    # by method: the param that bears the prefix, or the reference whose name or URI does
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "completion/complete": "ref",
}


class ConnectOptions(TypedDict, total=False):
    """The options of `mcprev.connect`, which describes them."""

    handler: ClientHandler | None
    roots: Roots | None
    sampling: Sampling | None
    elicitation: Elicitation | None
    logging: LogMessage | None
    on_change: OnChange | None
    name: str
    version: str
    title: str | None
    description: str | None
    website_url: str | None
    icons: Sequence[models.Icon]
    revisions: Sequence[str] | None
    mode: str
    capabilities: models.ClientCapabilities | None
    exact: Mapping[str, object] | None
    prior: models.DiscoverResult | None
    verdict: Era | None
    timeout: float | None
    total_timeout: float | None
    probe_timeout: float
    open_timeout: float
    restart: ReconnectPolicy | bool
    cache: ResultCache | bool
    validate: Policy
    ping_interval: float | None
    tasks: bool
    record: str | os.PathLike[str] | None
    telemetry: SessionFactory | None


class Clients(Methods):
    """Open connections to several servers, with the methods of a client; `clients["name"]` is the client of one server.

    Names of tools and prompts, and URIs, have the prefix `<server>__`; lists contain the entries of all servers.
    """

    def __init__(
        self, clients: Mapping[str, Client], errors: Mapping[str, Failure], separator: str = SEPARATOR
    ) -> None:
        """Join open clients; `mcprev.connect_all` calls this."""
        self.clients: Mapping[str, Client] = MappingProxyType({**clients})
        """The clients by the names of their servers, in the order of the configuration."""
        self.errors: Mapping[str, Failure] = MappingProxyType({**errors})
        """The errors of servers that could not be reached, by name; empty unless `partial` is True."""
        self._separator = separator

    def __getitem__(self, name: str) -> Client:
        """Return the client of a server. Raises `ServersFailed` if it could not be reached, `KeyError` if it is unknown."""
        if name in self.errors:
            raise ServersFailed({name: self.errors[name]})
        return self.clients[name]

    @override
    async def call(self, method: str, params: Mapping[str, Json], **options: Unpack[Options]) -> object:
        """Call a method of the server whose prefix the name or URI in the params has; lists are of all servers in turn.

        Raises `LocalProtocolError` for a name without the prefix of a server, `ServersFailed` for a server that could
        not be reached, and the errors of `Client.call`. For methods of a single server, use its client.
        """
        if method in _LISTS:
            return await self._page(method, params, options)
        if method not in _CALLS:
            raise TypeError(f"'{method}' is for one server: use the client of it, such as clients['name']")
        sent = holder = {**params}
        member = _CALLS[method]
        if member == "ref":
            holder = sent["ref"] = {**sent["ref"]}
            member = "uri" if "uri" in holder else "name"
        server, separator, holder[member] = str(holder[member]).partition(self._separator)
        if not separator or (server not in self.clients and server not in self.errors):
            known = ", ".join(f"'{name}{self._separator}'" for name in self.clients)
            raise LocalProtocolError(
                f"'{params.get(member, server)}' does not begin with the name of a server; the prefixes are {known}"
            )
        return await self[server].call(method, sent, **options)

    async def _page(self, method: str, params: Mapping[str, Json], options: Options) -> object:
        """Return a page of one server; its cursor leads to the next page or the next server."""
        names = [name for name, client in self.clients.items() if _offers(client, method)]
        number, _, cursor = str(params.get("cursor") or "0:").partition(":")
        member, bearer = _LISTS[method]
        if not number.isdecimal() or (names and int(number) >= len(names)):
            raise LocalProtocolError(f"'{params.get('cursor')}' is not a cursor of this client")
        if not names:
            return result_reader(method)({to_camel(member): []})
        name = names[int(number)]
        page: Any = await self.clients[name].call(method, {"cursor": cursor} if cursor else {}, **options)
        items = [_renamed(item, bearer, f"{name}{self._separator}") for item in getattr(page, member)]
        following = f"{int(number) + 1}:" if int(number) + 1 < len(names) else None
        if page.next_cursor is not None:
            following = f"{number}:{page.next_cursor}"
        return page.model_copy(update={member: items, "next_cursor": following})

    async def aclose(self) -> None:
        """Close all connections; may be called more than once."""
        await asyncio.gather(*(client.aclose() for client in self.clients.values()))


def _offers(client: Client, method: str) -> bool:
    """Return whether a server declares the capability of a list."""
    return getattr(client.capabilities, method.partition("/")[0]) is not None


def _renamed(item: Model, member: str, prefix: str) -> Model:
    return item.model_copy(update={member: prefix + str(getattr(item, member))})


def targets_of(
    config: str | os.PathLike[str] | Mapping[str, Json], separator: str = SEPARATOR
) -> dict[str, Target]:
    """Return the targets by name. Raises `OSError`, and `ValueError` that names the invalid entry."""
    found: Json = config if isinstance(config, Mapping) else _parsed(config)
    for key in ("mcpServers", "servers"):
        if isinstance(found, Mapping) and isinstance(cast("Mapping[str, Json]", found).get(key), Mapping):
            found = cast("Mapping[str, Json]", found)[key]
    if not isinstance(found, Mapping):
        raise ValueError(  # noqa: TRY004 - a file may say anything
            "the configuration is not an object with servers by name, such as {'mcpServers': {...}}"
        )
    targets: dict[str, Target] = {}
    for name, entry in cast("Mapping[str, Json]", found).items():
        if not name or f"{name}{separator}".find(separator) != len(name):
            raise ValueError(
                f"'{name}' cannot be a prefix with '{separator}'; rename it or pass another `separator`"
            )
        try:
            if not (isinstance(entry, Mapping) and cast("Mapping[str, Json]", entry).get("disabled")):
                targets[name] = _target(entry)
        except (TypeError, ValueError) as error:
            raise ValueError(f"the server '{name}' of the configuration: {error}") from error
    return targets


def _parsed(path: str | os.PathLike[str]) -> Json:
    # The second pass finds commas that were followed by a comment.
    return json.loads(_COMMENT.sub(r"\1", _COMMENT.sub(r"\1", Path(path).read_text("utf-8-sig"))))


def _target(entry: Json) -> Target:
    if not isinstance(entry, Mapping):
        return target_of(entry)
    members = cast("Mapping[str, Json]", entry)
    if "url" in members:
        from mcprev.transports.http.client.target import http

        return http(_filled(members["url"]), headers=_texts(members, "headers"))
    if "command" not in members:
        raise ValueError("it has neither `command` nor `url`")
    arguments: Json = members.get("args") or []
    if not isinstance(arguments, list):
        raise TypeError("`args` is not a list")
    from mcprev.transports.stdio.client import stdio

    words = [_filled(word) for word in (members["command"], *cast("Sequence[Json]", arguments))]
    cwd: Json = members.get("cwd")
    return stdio(*words, env=_texts(members, "env"), cwd=None if cwd is None else _filled(cwd))


def _texts(members: Mapping[str, Json], name: str) -> dict[str, str]:
    found: Json = members.get(name) or {}
    if not isinstance(found, Mapping):
        raise TypeError(f"`{name}` is not an object")
    return {key: _filled(value) for key, value in cast("Mapping[str, Json]", found).items()}


def _filled(text: Json) -> str:
    """Replace the environment variables that a text names. Raises `TypeError` and `ValueError`."""
    if not isinstance(text, str):
        raise TypeError(f"{text!r:.100} is not a string")

    def value(match: re.Match[str]) -> str:
        variables: Mapping[str, str] = os.environ if match[1] in (None, "env") else {}
        if match[2] not in variables and match[3] is None:
            raise ValueError(f"the variable {match[0][2:-1]} is not set in the environment")
        return variables.get(match[2], match[3])

    return _VARIABLE.sub(value, text)


class connect_all:  # noqa: N801 - called like a function
    """Connects to several servers: `async with connect_all("mcp.json") as clients`, or `await connect_all(...)`."""

    def __init__(
        self,
        config: str | os.PathLike[str] | Mapping[str, Json],
        *,
        partial: bool = False,
        separator: str = SEPARATOR,
        **options: Unpack[ConnectOptions],
    ) -> None:
        """Read the configuration: the `mcpServers` JSON of hosts, as a mapping or as the path of a file.

        An entry has `command`, `args`, `env` and `cwd`, or `url` and `headers`; an entry with `disabled` is left out.
        An entry of a mapping may also be any target of `connect`, such as an app of this process. `${NAME}` and
        `${NAME:-default}` are replaced by environment variables.

        - `partial=True` continues without servers that cannot be reached; `Clients.errors` has their errors. False, the
          default: all connections are closed, and `ServersFailed` has the error of each such server.
        - `separator` is the text between the name of a server and that of a tool or prompt, or a URI.
        - `options` are those of `connect`; they hold for each server.

        Raises `OSError` for a file that cannot be read, `ValueError` for an invalid configuration, and the errors of
        `connect` for its options.
        """
        targets = targets_of(config, separator)
        self._connecting = {name: connect(target, **options) for name, target in targets.items()}
        self._partial, self._separator = partial, separator
        self._open: Clients | None = None

    async def __aenter__(self) -> Clients:
        """Connect to all servers at once. Raises `ServersFailed`."""
        async with AsyncExitStack() as stack:
            async with asyncio.TaskGroup() as group:
                tasks = {
                    name: group.create_task(_open(stack, each)) for name, each in self._connecting.items()
                }
            ends = {name: task.result() for name, task in tasks.items()}
            errors = {name: end for name, end in ends.items() if isinstance(end, Failure)}
            if errors and not self._partial:
                raise ServersFailed(errors)
            stack.pop_all()
        clients = {name: end for name, end in ends.items() if not isinstance(end, Failure)}
        self._open = Clients(clients, errors, self._separator)
        return self._open

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            await self._open.aclose()

    def __await__(self) -> Generator[Any, None, Clients]:
        return self.__aenter__().__await__()


async def _open(stack: AsyncExitStack, connecting: connect) -> Client | Failure:
    """Return the client, which `stack` closes, or why there is none."""
    try:
        return await stack.enter_async_context(connecting)
    except (McpError, OSError) as error:
        return error
