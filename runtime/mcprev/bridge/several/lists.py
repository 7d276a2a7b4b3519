"""The lists of several servers as one, page by page, and what they say about names (PAGE-1, TIME-1).

The first page has the first pages of all servers, in the order of the configuration, and so on. A server that is down or does
not answer in time is missing; the others are not held up for longer than that.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from mcprev.bridge.relay import Exchange
from mcprev.bridge.several.asking import LOG_IN, login_tool
from mcprev.bridge.several.hub import Hub
from mcprev.bridge.several.introductions import info_of
from mcprev.bridge.several.login_required import LoginRequired
from mcprev.bridge.several.member import Member
from mcprev.bridge.several.names import Names, Naming, compared
from mcprev.bridge.several.options import PROMPTS, RESOURCES, TOOLS
from mcprev.bridge.several.parts import Outcome
from mcprev.bridge.several.places import SKILLS_LIST, Entries, Mark, Places
from mcprev.bridge.several.translation import Translation
from mcprev.bridge.upstream import logger
from mcprev.conversion import PayloadKind, converter
from mcprev.conversion.rules import JsonObject, as_list, as_object, without
from mcprev.core.interfaces import principal_of
from mcprev.core.lists import LISTS as METHODS_WITH_SCHEMA, ListBudget, ListTooLong
from mcprev.core.valid_entries import InvalidEntries, valid_page
from mcprev.errors import ConversionError, Json, one_line
from mcprev.protocol.cache import LONGEST
from mcprev.protocol.durations import seconds_of
from mcprev.revisions import Revision
from mcprev.wire.meta_keys import SERVER_INFO

WAIT: Final = 10.0
"""Seconds that a server has for a page."""
WHOLE: Final = 30.0
"""Seconds for which whole lists are read to decide about names."""
FRESH: Final = 10.0
"""Seconds for which what was read holds for clients that are not told of changes."""
SOON: Final = 1.0
"""Seconds before lists are read again for a name that was not found."""
MAX_CURSOR: Final = 16_384
"""The maximum length of a server's cursor, in characters."""
MAX_CURSORS: Final = 131_072
"""The maximum length of the cursors of all servers on one page."""
_AGAIN: Final = 3
"""How often a first page is made anew, if the servers are configured anew meanwhile."""
LISTS: Final = {TOOLS: "tools/list", PROMPTS: "prompts/list", RESOURCES: "resources/list"}
"""The lists that decide about names."""


class ListingClient(Protocol):
    """The client whose lists they are."""

    hub: Hub
    revision: Revision
    places: Places
    names: Names

    def declares(self, member: Member, kind: str) -> bool:
        """Return whether a server has lists of a kind, as far as is known."""
        ...

    def has_list(self, member: Member, method: str, kind: str) -> bool:
        """Return whether a server has the list of a method, as far as is known."""
        ...

    def translation(self, naming: Naming, principal: str | None) -> Translation:
        """Return the translation between the client and a server."""
        ...

    async def ask(
        self, member: Member, exchange: Exchange, method: str, params: JsonObject | None
    ) -> Outcome:
        """Return what a server answers to a request of the bridge's own."""
        ...


class MergedLists:
    """The lists that one client sees."""

    def __init__(self, client: ListingClient) -> None:
        self._client = client
        self._locks: dict[str, asyncio.Lock] = {}
        self._needs_login: dict[str, LoginRequired] = {}
        """The servers at which the user has to log in, as their last lists have shown."""
        self._late: set[tuple[str, str]] = set()
        """The servers, by generation, whose pages of a method are still awaited."""
        self._invalid = InvalidEntries(logger)

    async def serve(self, exchange: Exchange, entries: Entries) -> None:
        """Answer a request for a page."""
        client, cursor = self._client, (exchange.incoming.params or {}).get("cursor")
        found, pages = dict[str, JsonObject](), dict[str, Json]()
        for _ in range(_AGAIN):
            before = list(client.hub.members.values())
            found, pages = await self._found(exchange, entries, cursor)
            if cursor is not None or before == list(client.hub.members.values()):
                break  # else the servers were configured anew while they were asked
        exchange.answer(self._joined(exchange, entries, found, pages))

    async def _found(
        self, exchange: Exchange, entries: Entries, cursor: Json
    ) -> tuple[dict[str, JsonObject], dict[str, Json]]:
        """Return a page of each server, and the cursors of those that have more."""
        client, method = self._client, exchange.incoming.method
        if cursor is None and client.names.needed and method in LISTS.values():
            return await self._read(exchange, entries.kind), {}
        members = list(client.hub.members.values())
        cursors: JsonObject = {}
        if cursor is not None:
            cursors = client.hub.seals.cursors(method, cursor, principal_of(exchange.incoming))
            members = [each for each in members if each.name in cursors]
        found = await self._pages(exchange, method, entries.kind, members, cursors)
        return found, {
            name: page["nextCursor"] for name, page in found.items() if page.get("nextCursor") is not None
        }

    def _joined(
        self, exchange: Exchange, entries: Entries, found: dict[str, JsonObject], pages: dict[str, Json]
    ) -> JsonObject:
        """Return one page from those of the servers."""
        client, method = self._client, exchange.incoming.method
        hub, principal = client.hub, principal_of(exchange.incoming)
        items: list[JsonObject] = []
        seen: set[Json] = set()
        for name, page in found.items():
            member = hub.members.get(name)
            if member is None:
                continue  # it has gone meanwhile
            for item in client.translation(member.naming, principal).page(method, page, entries):
                key = item.get(entries.key)
                if entries.mark is Mark.NAME and key in seen:
                    logger.warning(
                        "'%s' lists '%s' twice; only the first one is passed on", name, one_line(str(key))
                    )
                    continue
                seen.add(key)
                items.append(item)
        if entries.kind == TOOLS and (exchange.incoming.params or {}).get("cursor") is None:
            needs = [
                each for each in hub.members.values() if each.spec.logs_in and each.name in self._needs_login
            ]
            items += [login_tool(each.naming.name(LOG_IN), each.name) for each in needs]
        # makes ListToolsResult ListPromptsResult ListResourcesResult ListResourceTemplatesResult
        result: JsonObject = {entries.member: items}
        following = _cursors(pages)
        if following:
            result["nextCursor"] = hub.seals.cursor(method, following, principal)
        if not client.revision.handshake or method == SKILLS_LIST:
            whole = all(
                name in found or (method == SKILLS_LIST and not client.has_list(member, method, entries.kind))
                for name, member in hub.members.items()
            )
            public = whole and all(page.get("cacheScope") == "public" for page in found.values())
            times = [seconds_of(page.get("ttlMs"), most=LONGEST) for page in found.values()] if whole else []
            result |= {
                "resultType": "complete",
                "cacheScope": "public" if public else "private",
                "ttlMs": int(1000 * min((each or 0.0 for each in times), default=0.0)),
                "_meta": {SERVER_INFO: info_of(hub.own)},
            }
        return result

    # -- pages ---------------------------------------------------------------------------------------------------

    async def _pages(
        self, exchange: Exchange, method: str, kind: str, members: list[Member], cursors: JsonObject
    ) -> dict[str, JsonObject]:
        """Return a page of each server that has it in time."""
        tasks: dict[str, asyncio.Task[Outcome]] = {}
        for member in members:
            if self._client.has_list(member, method, kind) and (member.generation, method) not in self._late:
                cursor = cursors.get(member.name)
                params = {"cursor": cursor} if cursor is not None else None
                asking = self._client.ask(member, exchange, method, params)
                tasks[member.name] = self._client.hub.start(asking)
        try:
            if tasks:
                await asyncio.wait(tasks.values(), timeout=WAIT)
        except BaseException:
            for task in tasks.values():
                task.cancel()
            raise
        found: dict[str, JsonObject] = {}
        for member in members:
            asked = tasks.get(member.name)
            if asked is None:
                continue
            if not asked.done():
                self._await_late(member, method, asked)
                continue
            outcome = asked.result()
            self._needs_login.pop(member.name, None)
            if isinstance(outcome.refusal, LoginRequired):
                self._needs_login[member.name] = outcome.refusal
            if outcome.result is not None:
                page = self._valid(member, method, outcome.result)
                if page is not None:
                    found[member.name] = page
            elif outcome.error is not None:
                logger.info(
                    "the result of '%s' lacks the entries of '%s': %s",
                    method,
                    member.name,
                    one_line(str(outcome.error.get("message"))),
                )
        return found

    def _valid(self, member: Member, method: str, page: JsonObject) -> JsonObject | None:
        """Return a page of a server with its valid entries only; None for one that is not valid without the others either."""
        if method not in METHODS_WITH_SCHEMA:
            entries = self._client.places.entries(method)
            return page if entries and as_list(page.get(entries.member)) is not None else None
        revision = self._client.revision
        judge = converter(method, PayloadKind.RESULT, from_=revision, to=revision)
        try:
            found, invalid = valid_page(method, page, judge)
        except ConversionError as error:
            logger.warning(
                "the result of '%s' from '%s' is not valid: %s", method, member.name, one_line(error)
            )
            return None
        self._invalid.add(invalid, f"'{member.name}'")
        return found

    def _await_late(self, member: Member, method: str, task: asyncio.Task[Outcome]) -> None:
        """Leave a server out until it answers; then the client is told that lists have changed."""
        logger.warning(
            "the result of '%s' from '%s' did not arrive within %g s; it is left out",
            method,
            member.name,
            WAIT,
        )
        key = member.generation, method
        self._late.add(key)
        hub = self._client.hub

        def came(done: asyncio.Task[Outcome]) -> None:
            self._late.discard(key)
            if not done.cancelled() and done.exception() is None and done.result().result is not None:
                hub.tell_changed(member)

        task.add_done_callback(came)

    # -- names ---------------------------------------------------------------------------------------------------

    def changed(self, kind: str) -> None:
        """Take note that lists of a kind have changed."""
        self._client.names.listed.read_at.pop(kind, None)

    async def read_for(self, exchange: Exchange, kind: str) -> bool:
        """Read the lists of a kind for a name that was not found in them; return whether they are new."""
        if kind not in LISTS:
            return False
        async with self._locks.setdefault(kind, asyncio.Lock()):
            read_at = self._client.names.listed.read_at.get(kind)
            if read_at is not None and asyncio.get_running_loop().time() - read_at < SOON:
                return True
            await self._read(exchange, kind)
        return True

    async def ensure(self, exchange: Exchange) -> None:
        """Read the lists that decide about names, if names depend on them and they are not fresh."""
        now, names = asyncio.get_running_loop().time(), self._client.names
        for kind in LISTS if names.needed else ():
            read_at = names.listed.read_at.get(kind)
            if read_at is None or now - read_at > FRESH:
                await self.read_for(exchange, kind)

    async def _read(self, exchange: Exchange, kind: str) -> dict[str, JsonObject]:
        """Read the whole lists of all servers, and return them as one page each."""
        client, method = self._client, LISTS[kind]
        entries = client.places.entries(method)
        assert entries is not None
        found: dict[str, JsonObject] = {}
        members = list(client.hub.members.values())
        cursors: JsonObject = {}
        budgets = {each.name: ListBudget(method) for each in members}
        until = asyncio.get_running_loop().time() + WHOLE
        while members:
            pages = await self._pages(exchange, method, kind, members, cursors)
            cursors = {}
            for name, page in pages.items():
                whole = found.setdefault(name, {**without(page, "nextCursor"), entries.member: []})
                try:
                    following = budgets[name].take(page)
                    whole[entries.member] += as_list(page.get(entries.member)) or []
                    cursors[name] = budgets[name].follow(following)
                except ListTooLong as error:
                    logger.warning("'%s': %s; the rest is left out", one_line(name), one_line(error))
            members = [each for each in members if cursors.get(each.name) is not None]
            if members and asyncio.get_running_loop().time() > until:
                late = ", ".join(one_line(each.name) for each in members)
                logger.warning("the list of '%s' is not complete within %g s: %s", method, WHOLE, late)
                break
        shown = {
            name: self._keys(client.hub.members[name], entries, page)
            for name, page in found.items()
            if name in client.hub.members
        }
        for name, member in client.hub.members.items():
            if name in shown:
                member.remember(kind, [compared(kind, key) for key in shown[name]])
            elif not client.declares(member, kind):
                shown[name] = []
        client.names.listed.replace(kind, shown, asyncio.get_running_loop().time())
        return found

    def _keys(self, member: Member, entries: Entries, page: JsonObject) -> list[str]:
        """Return the names or URIs of a page that are offered, without prefixes."""
        offer = member.naming.offer
        keys = [as_object(item).get(entries.key) for item in page[entries.member]]
        shown = (offer.shown(entries.kind, key) for key in keys if isinstance(key, str))
        return [each for each in shown if each is not None]


def _cursors(pages: dict[str, Json]) -> dict[str, str]:
    """Return the cursors to seal; one that is too long ends the list of its server."""
    found: dict[str, str] = {}
    total = 0
    for name, cursor in sorted(pages.items(), key=lambda item: len(str(item[1]))):
        total += len(str(cursor))
        if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR or total > MAX_CURSORS:
            logger.warning("a cursor of '%s' is too long, or not a string; the list is cut off", name)
        else:
            found[name] = cursor
    return found
