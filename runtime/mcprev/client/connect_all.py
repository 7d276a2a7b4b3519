"""Several servers as one: connects to those of the `mcpServers` configuration of hosts (PAGE-1, SEAM-1).

The names of tools and prompts and all URIs begin with the name of their server, so that what one server returns leads
back to it and to no other.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Mapping,
)
from contextlib import suppress
from functools import partial as with_arguments
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from pydantic.alias_generators import to_camel, to_snake
from typing_extensions import Unpack, override

from mcprev.callbacks import at_once
from mcprev.client.calls import result_reader
from mcprev.client.client import Client
from mcprev.client.connect import connect
from mcprev.client.connect_options import ConnectOptions
from mcprev.client.host_config import SEPARATOR, Config, prefix_of, targets_of
from mcprev.client.methods import Methods
from mcprev.client.open_blocks import OpenBlocks
from mcprev.client.options import Options
from mcprev.core.options import check_options, shows_options
from mcprev.errors import Json, LocalProtocolError, McpError, ServersFailed
from mcprev.protocol.tool_names import stands_for, with_prefix
from mcprev.wire.json_values import is_json_list, is_json_object
from mcprev_types import Model, UnknownContent

if TYPE_CHECKING:
    from mcprev.extensions.skills.client import HeldSkill

LIST_TIMEOUT: Final = 30.0
"""Seconds that a server has for a whole list, unless a call has `total_timeout`."""
MAX_FORMS: Final = 10_000
"""The maximum number of names of tools whose valid forms are kept; the oldest are made again by the next list."""
Failure: TypeAlias = McpError | OSError
"""Why a server is missing: it cannot be reached, or the file for `record` cannot be written."""
T = TypeVar("T")
_logger: Final = logging.getLogger("mcprev.client")
_LISTS: Final[Mapping[str, str]] = {
    # by method: the member with the list
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resource_templates",
}
_LISTS_OF_NAMES: Final = frozenset({"tools/list", "prompts/list"})
_LINKS: Final = frozenset({"uri", "uri_template"})
"""The members of the models of a result that can be followed."""
_CALLS: Final[Mapping[str, str]] = {
    # by method: the param that bears the prefix, or the reference whose name or URI does
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "completion/complete": "ref",
}


class Clients(Methods):
    """Open connections to several servers, with the methods of a client; `clients["name"]` is the client of one server.

    Names of tools and prompts have the prefix `<server>__`, with `-` for what no name of a tool may have, and so has every
    URI of a result: those of resources, templates, contents, links and the pages of tools. Lists contain the entries of all servers. Results of the client
    of one server have no prefixes, and can be used with that client only.
    """

    def __init__(
        self,
        clients: Mapping[str, Client],
        errors: Mapping[str, Failure],
        separator: str = SEPARATOR,
        *,
        partial: bool = False,
    ) -> None:
        """Join open clients; `mcprev.connect_all` calls this."""
        super().__init__(self._entries)
        self.clients: Mapping[str, Client] = MappingProxyType({**clients})
        """The clients by the names of their servers, in the order of the configuration."""
        self.errors: Mapping[str, Failure] = MappingProxyType({**errors})
        """The errors of servers that could not be reached, by name; empty unless `partial` is True."""
        self.list_errors: Mapping[str, dict[str, McpError]] = {method: {} for method in _LISTS}
        """By method, such as `tools/list`: the errors of the servers whose entries the last list lacks, by name; empty
        unless `partial` is True."""
        self._separator = separator
        self._partial = partial
        self._forms: dict[str, str] = {}
        """The names of tools at their servers by the forms that lists have, of names that not every client takes."""
        self._read: set[str] = set()
        """The servers whose tools were listed to find such a name."""

    def __getitem__(self, name: str) -> Client:
        """Return the client of a server. Raises `ServersFailed` if it could not be reached, `KeyError` if it is unknown."""
        prefix = name if name in self.clients else prefix_of(name)
        if prefix in self.errors:
            raise ServersFailed({prefix: self.errors[prefix]})
        return self.clients[prefix]

    @override
    async def call(self, method: str, params: Mapping[str, Json], **options: Unpack[Options]) -> object:
        """Call a method of the server whose prefix the name or URI in the params has; lists are those of all servers.

        Raises `LocalProtocolError` for a name without the prefix of a server, `ServersFailed` for a server that could
        not be reached or does not return its list, and the errors of `Client.call`. For methods of a single server, use
        its client.
        """
        if method in _LISTS:
            return await self._page(method, params, options)
        if method not in _CALLS:
            raise TypeError(f"'{method}' is for one server: use its client, such as clients['name']")
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
        if method == "tools/call" and stands_for(holder[member]) is not None:
            holder[member] = await self._own_name(server, holder[member])
        return prefixed_links(await self[server].call(method, sent, **options), server + self._separator)

    async def _own_name(self, server: str, name: str) -> str:
        """Return the name of a tool at its server; the list is read if only it can tell."""
        shown = server + self._separator + name
        if shown not in self._forms and server in self.clients and server not in self._read:
            self._read.add(server)
            with suppress(McpError):
                async for tool in self.clients[server].tools(total_timeout=LIST_TIMEOUT):
                    self._entry("tools/list", server, tool)
        return self._forms.get(shown, name)

    def _shown(self, prefix: str, name: str) -> str:
        """Return the name of a tool with the prefix of its server; one that not every client takes has another form."""
        found = with_prefix(prefix, name)
        if found != prefix + name:
            self._forms[found] = name
            if len(self._forms) > MAX_FORMS:
                del self._forms[next(iter(self._forms))]
        return found

    async def _page(self, method: str, params: Mapping[str, Json], options: Options) -> object:
        """Return a page of one server; its cursor leads to the next page or the next server."""
        member, given = _LISTS[method], params.get("cursor")
        names = [name for name, client in self.clients.items() if _offers(client, method)]
        name, separator, rest = str(given).partition(self._separator)
        if given is not None and (not separator or name not in self.clients or rest[:1] not in {"", ":"}):
            raise LocalProtocolError(f"'{given}' is not a cursor of this client")
        if given is None and names:
            name = names[0]
        empty, page = result_reader(method)({to_camel(member): []}), None
        if name in names:
            options = {"total_timeout": LIST_TIMEOUT, **options}
            sent = {"cursor": rest[1:]} if rest else {}
            try:
                page = cast("Any", await self.clients[name].call(method, sent, **options))
                self.list_errors[method].pop(name, None)
            except McpError as error:
                if not self._partial:
                    raise ServersFailed({name: error}) from error
                self._note(method, {name: error})
        order = [*self.clients]
        later = order[order.index(name) + 1 :] if name in order else []
        following = next((f"{each}{self._separator}" for each in later if each in names), None)
        if page is None:
            return empty.model_copy(update={"next_cursor": following})
        if page.next_cursor is not None:
            following = f"{name}{self._separator}:{page.next_cursor}"
        items = [self._entry(method, name, item) for item in getattr(page, member)]
        return page.model_copy(update={member: items, "next_cursor": following})

    async def _entries(self, method: str, member: str, options: Options) -> AsyncIterator[Any]:
        """Iterate over the entries of all servers in the order of the configuration.

        All servers are asked at once, and each has a time for its whole list, so that one that does not answer holds
        up the others for this time at most. The errors of servers are raised after the entries of the others.
        """
        timed: Options = {"total_timeout": LIST_TIMEOUT, **options}
        lists: dict[str, AsyncIterator[Any]] = {
            name: getattr(client, member)(**timed)
            for name, client in self.clients.items()
            if _offers(client, method)
        }
        first = {name: asyncio.create_task(_next(entries)) for name, entries in lists.items()}
        errors: dict[str, McpError] = {}
        try:
            for name, entries in lists.items():
                try:
                    entry = await first[name]
                    while entry is not None:
                        yield self._entry(method, name, entry)
                        entry = await _next(entries)
                except McpError as error:
                    errors[name] = error
        finally:
            for task in first.values():
                task.cancel()
            await asyncio.gather(*first.values(), return_exceptions=True)
        if errors and not self._partial:
            raise ServersFailed(errors)
        self.list_errors[method].clear()
        self._note(method, errors)

    async def skills(self, **options: Unpack[Options]) -> AsyncGenerator[HeldSkill, None]:
        """Iterate over the skills of all servers that declare some, in the order of the configuration; see `Client.skills`.

        Their URIs have no prefix: `identity` of each names its server, whose client reads its files. Errors of servers are
        raised after the skills of the others, unless `partial` is True.
        """
        from mcprev.extensions.skills.rules import NAME

        timed: Options = {"total_timeout": LIST_TIMEOUT, **options}
        errors: dict[str, McpError] = {}
        for name, client in self.clients.items():
            if client.extension_settings(NAME) is not None:
                try:
                    async for skill in client.skills(**timed):
                        yield skill
                except McpError as error:
                    errors[name] = error
        if errors and not self._partial:
            raise ServersFailed(errors)
        for name in errors:
            _logger.warning("the list of skills lacks those of the server '%s'", name)

    def _note(self, method: str, errors: Mapping[str, McpError]) -> None:
        """Keep the errors of a list that continues without some servers."""
        self.list_errors[method].update(errors)
        for name in errors:
            _logger.warning("the result of '%s' lacks the entries of the server '%s'", method, name)

    def _entry(self, method: str, server: str, entry: Model) -> Model:
        """Return an entry of a list with the prefix of its server."""
        prefix = server + self._separator
        if method in _LISTS_OF_NAMES:
            name = str(cast("Any", entry).name)
            shown = self._shown(prefix, name) if method == "tools/list" else prefix + name
            entry = entry.model_copy(update={"name": shown})
            entry = _with_page(entry, prefix)
        return prefixed_links(entry, prefix)

    async def aclose(self) -> None:
        """Close all connections; may be called more than once."""
        await _close(self.clients.values())


async def _close(clients: Iterable[Client]) -> None:
    await asyncio.gather(*(client.aclose() for client in clients))


def _offers(client: Client, method: str) -> bool:
    """Return whether a server declares the capability of a list."""
    return getattr(client.capabilities, method.partition("/")[0]) is not None


async def _next(entries: AsyncIterator[Any]) -> Model | None:
    return await anext(entries, None)


def prefixed_links(value: T, prefix: str) -> T:
    """Return a value with a prefix at the URIs of the models in it, however deep; JSON values stay as they are.

    Content of a type that is not known here is no JSON value of a user: what it calls a URI leads somewhere, too.
    """
    if isinstance(value, UnknownContent):
        unknown = value.model_extra or {}
        changes = {name: _prefixed_member(name, item, prefix) for name, item in unknown.items()}
        return cast("T", value.model_copy(update=changes))
    if not isinstance(value, Model):
        found: object = value
        items = cast("list[object]", found if isinstance(found, list) else ())
        if not (items and isinstance(items[0], Model)):
            return value
        return cast("T", [prefixed_links(item, prefix) for item in items])
    changed: dict[str, object] = {}
    for name, item in vars(value).items():
        new = prefix + item if name in _LINKS and isinstance(item, str) else prefixed_links(item, prefix)
        if new is not item:
            changed[name] = new
    return value.model_copy(update=changed) if changed else value


def _prefixed_member(name: str, value: Json, prefix: str) -> Json:
    """Return a member of JSON with a prefix at the URIs in it."""
    if isinstance(value, str):
        return prefix + value if to_snake(name) in _LINKS else value
    if is_json_object(value):
        return {each: _prefixed_member(each, item, prefix) for each, item in value.items()}
    if is_json_list(value):
        return [_prefixed_member(name, item, prefix) for item in value]
    return value


def _with_page(entry: Model, prefix: str) -> Model:
    """Return a tool with a prefix at the URI of the page that its `_meta` names (`mcprev.extensions.ui`)."""
    meta: Json = getattr(entry, "meta", None) or {}
    said: Json = meta.get("ui")
    changed: dict[str, Json] = {}
    if is_json_object(said):
        page: Json = said.get("resourceUri")
        if isinstance(page, str):
            changed["ui"] = {**said, "resourceUri": prefix + page}
    if isinstance(meta.get("ui/resourceUri"), str):
        changed["ui/resourceUri"] = prefix + meta["ui/resourceUri"]
    return entry.model_copy(update={"meta": {**meta, **changed}}) if changed else entry


_FUNCTIONS: Final = ("sampling", "elicitation", "logging", "on_change", "tap")


def _options_of(server: str, separator: str, options: ConnectOptions) -> dict[str, Any]:
    """Return the options of `connect` for one server, with functions that tell the user's which server asks.

    Raises `TypeError` for a function that cannot be called with the name of the server and the params.
    """
    found: dict[str, Any] = {**options}
    for name in _FUNCTIONS:
        function = found.get(name)
        if function is None:
            continue
        with suppress(ValueError):  # it has no signature
            try:
                inspect.signature(function).bind(server, None)
            except TypeError as error:
                raise TypeError(
                    f"`{name}` of several servers is called as f(server, params): {error}"
                ) from None
        found[name] = with_arguments(_tell, function, server, server + separator)
    if callable(found.get("roots")):
        found["roots"] = at_once(found["roots"](server), "`roots` of several servers")
    return found


def _tell(function: Callable[[str, Any], Any], server: str, prefix: str, params: object) -> object:
    return function(server, prefixed_links(params, prefix))


class connect_all:  # noqa: N801 - called like a function
    """Connects to several servers: `async with connect_all("mcp.json") as clients`, or `await connect_all(...)`."""

    @shows_options(ConnectOptions)
    def __init__(
        self,
        config: Config,
        *,
        partial: bool = False,
        separator: str = SEPARATOR,
        **options: Unpack[ConnectOptions],
    ) -> None:
        """Read the configuration: the `mcpServers` JSON of hosts, as a mapping or as the path of a file.

        An entry has `command`, `args`, `env` and `cwd`, or `url` and `headers`; an entry with `disabled` is left out.
        An entry of a mapping may also be any target of `connect`, such as an app of this process. `${NAME}` and
        `${NAME:-default}` are replaced by environment variables.

        - `partial=True` continues without servers that cannot be reached, and whose lists fail; `Clients.errors` and
          `Clients.list_errors` have their errors. False, the default: `ServersFailed` has the error of each such
          server; if one cannot be reached, all connections are closed.
        - `separator` is the text between the name of a server and that of a tool or prompt, or a URI.
        - `options` are those of `ConnectOptions`; they hold for each server. Functions get the name of the server first, as in
          `elicitation(server, params)`. A `handler` finds it as `ctx.client.server_name`; the params that it gets lead to
          `ctx.client`, and have no prefixes.

        Raises `OSError` for a file that cannot be read, `ValueError` for an invalid configuration, and the errors of
        `connect` for its options.
        """
        check_options("connect_all", ConnectOptions, options)
        self._connecting: dict[str, connect] = {}
        for name, target in targets_of(config, separator).items():
            self._connecting[name] = connecting = connect(target, **_options_of(name, separator, options))
            connecting.server_name = name
        self._partial, self._separator = partial, separator
        self._entered: OpenBlocks[Clients] = OpenBlocks()

    async def __aenter__(self) -> Clients:
        """Connect to all servers at once. Raises `ServersFailed`."""
        return self._entered.enter(await self._connect())

    async def _connect(self) -> Clients:
        tasks = {name: asyncio.create_task(_open(each)) for name, each in self._connecting.items()}
        clients, errors = dict[str, Client](), dict[str, Failure]()
        try:
            for name, task in tasks.items():
                end = await task
                if isinstance(end, Failure):
                    errors[name] = end
                else:
                    clients[name] = end
        except BaseException:
            for task in tasks.values():
                task.cancel()
            ends = await asyncio.gather(*tasks.values(), return_exceptions=True)
            await _close(end for end in ends if not isinstance(end, BaseException))
            raise
        if errors and not self._partial:
            await _close(clients.values())
            raise ServersFailed(errors)
        return Clients(clients, errors, self._separator, partial=self._partial)

    async def __aexit__(self, *_: object) -> None:
        await self._entered.leave().aclose()

    def __await__(self) -> Generator[Any, None, Clients]:
        return self._connect().__await__()


async def _open(connecting: connect) -> Client | Failure:
    """Return the client, or why there is none."""
    try:
        return await connecting
    except (McpError, OSError) as error:
        return error
