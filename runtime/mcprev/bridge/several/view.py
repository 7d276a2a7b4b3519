"""Stateless clients of several servers, and their listen streams, which join those of all servers (SUB-2..6)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from mcprev.bridge.introduction import DISCOVER, ClientIntroduction, sender_of
from mcprev.bridge.outages import Attempts
from mcprev.bridge.relay import Exchange
from mcprev.bridge.several.client import SeveralClient, check_asked_scopes
from mcprev.bridge.several.introductions import joined_discovery
from mcprev.bridge.several.login_required import LoginRequired
from mcprev.bridge.several.options import KINDS, RESOURCES
from mcprev.bridge.several.parts import Outcome, PartExchange
from mcprev.bridge.several.session import OPENING
from mcprev.bridge.several.translation import Translation
from mcprev.conversion.rules import JsonObject, as_list, as_object
from mcprev.core.interfaces import principal_of
from mcprev.errors import METHOD_NOT_FOUND, InternalError, InvalidParams, Json, RpcError
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.subscriptions import (
    ACKNOWLEDGED,
    CHANGES,
    LISTEN,
    MAX_RESOURCES,
    TASK_IDS,
    Changed,
)
from mcprev.wire.json_values import is_json_object
from mcprev.wire.meta_keys import SUBSCRIPTION_ID

if TYPE_CHECKING:
    from mcprev.bridge.several.member import Member

_MEMBERS: Final = {kind: CHANGES[Changed(kind)].member for kind in KINDS}
"""The members of a filter for changes of lists, by kind."""
_RESOURCES: Final = CHANGES[Changed.RESOURCE].member


def introduction_of(incoming: IncomingRequest) -> ClientIntroduction:
    """Return what a stateless client says of itself with a request."""
    return ClientIntroduction(
        incoming.revision, incoming.capabilities, incoming.client_info, sender=sender_of(incoming)
    )


class StatelessView(SeveralClient):
    """What the stateless clients of one principal see."""

    @override
    async def run(self, member: Member, exchange: PartExchange) -> None:
        client = introduction_of(exchange.incoming)
        if exchange.incoming.method == DISCOVER:
            await member.stateless.discover(exchange, client, [])
        else:
            await member.stateless.serve(exchange, client)

    @override
    def capabilities(self, member: Member) -> JsonObject | None:
        known = member.relay.upstreams.introduction
        return None if known is None else known.capabilities

    @override
    async def serve(self, exchange: Exchange) -> None:
        if exchange.incoming.method == LISTEN:
            await Listening(self, exchange).serve()
        else:
            await super().serve(exchange)

    async def discover(self, exchange: Exchange, versions: list[str]) -> None:
        """Answer `server/discover`, with what the servers say that can be reached in time."""
        members = list(self.hub.members.values())
        asking = {member: self.hub.start(self.ask(member, exchange, DISCOVER, None)) for member in members}
        try:
            await asyncio.wait(asking.values(), timeout=OPENING)
        finally:
            for task in asking.values():
                task.cancel()
        outcomes = {member: task.result() for member, task in asking.items() if _is_done(task)}
        said = [
            (member.naming, outcomes[member].result if member in outcomes else None) for member in members
        ]
        failed = [
            outcome
            for outcome in outcomes.values()
            if outcome.result is None and not isinstance(outcome.refusal, LoginRequired)
        ]
        if members and len(failed) == len(members):
            reasons = [str(as_object(outcome.error).get("message")) for outcome in failed]
            raise InternalError(f"no server behind the bridge can be reached: {'; '.join(reasons)[:1_000]}")
        exchange.answer(joined_discovery(said, self.hub.own, versions))


def _is_done(task: asyncio.Task[Outcome]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


class Listening:
    """One listen stream of a client, made of one for each server."""

    def __init__(self, view: StatelessView, exchange: Exchange) -> None:
        self._view = view
        self._exchange = exchange
        given: Json = (exchange.incoming.params or {}).get("notifications")
        if not is_json_object(given):
            raise InvalidParams("Invalid params: notifications is missing")
        self._filter = given
        self._uris: dict[str, list[str]] = {}
        """The resources of each server, by its name, as the server calls them."""
        self._streams: dict[Member, asyncio.Task[None]] = {}
        self._waiting: set[Member] = set()
        """The servers that have not confirmed their stream yet."""
        self._confirmed = asyncio.Event()
        self._accepted: list[str] = []
        self._begun = False

    async def serve(self) -> None:
        """Serve the stream until its client or the bridge ends it."""
        await self._find_resources()
        hub = self._view.hub
        try:
            for member in hub.members.values():
                self._start(member)
            if self._waiting:
                with suppress(TimeoutError):
                    async with asyncio.timeout(OPENING):
                        await self._confirmed.wait()
            accepted: JsonObject = {
                member: True for member in _MEMBERS.values() if self._filter.get(member) is True
            }
            if _RESOURCES in self._filter:
                accepted[_RESOURCES] = self._accepted
            if TASK_IDS in self._filter:
                accepted[TASK_IDS] = self._filter[TASK_IDS]
            self._send(ACKNOWLEDGED, {"notifications": accepted})
            self._begun = True
            hub.add(self)
            await asyncio.get_running_loop().create_future()
        finally:
            hub.discard(self)
            for task in self._streams.values():
                task.cancel()

    async def _find_resources(self) -> None:
        """Find out which server each resource of the filter is of; others are left out."""
        view = self._view
        await view.lists.ensure(self._exchange)
        uris = [uri for uri in as_list(self._filter.get(_RESOURCES)) or () if isinstance(uri, str)][
            :MAX_RESOURCES
        ]
        unknown = [uri for uri in uris if view.names.find(RESOURCES, uri) is None]
        if unknown:
            await view.lists.read_for(self._exchange, RESOURCES)
        called: dict[str, None] = dict.fromkeys(uris)
        for uri in tuple(called):
            found = view.names.find(RESOURCES, uri)
            if found is not None and found[0].offer.allows(RESOURCES, found[1]):
                self._uris.setdefault(found[0].server, []).append(found[1])
                called |= dict.fromkeys(view.names.all_names(found[0], RESOURCES, found[1]))
                called[view.names.uri(*found)] = None
        if len(called) > len(set(uris)):
            asked = {**self._filter, _RESOURCES: list(called)}
            incoming = self._exchange.incoming
            await check_asked_scopes(incoming, {**(incoming.params or {}), "notifications": asked})

    def _start(self, member: Member) -> None:
        principal = principal_of(self._exchange.incoming)
        translation = self._view.translation(member.naming, principal)
        wanted = translation.filter(self._filter, self._uris.get(member.name, []))
        if not wanted:
            return
        self._waiting.add(member)
        self._streams[member] = self._view.hub.start(self._keep(member, wanted))

    async def _keep(self, member: Member, wanted: JsonObject) -> None:
        """Keep the stream at one server; one that ends is opened again, and everything counts as changed."""
        view, principal, rounds = self._view, principal_of(self._exchange.incoming), 0
        translation, attempts = view.translation(member.naming, principal), Attempts(
            member.relay.upstreams.outage
        )

        def send(method: str, params: JsonObject | None) -> None:
            if method == ACKNOWLEDGED:
                attempts.heard()
                self._confirm(member, translation.to_client(method, params))
                if rounds > 1:
                    self._all_changed(member, wanted, translation)
            elif not member.retired and translation.tells(method, params):
                for kind, name in _MEMBERS.items():
                    if method == CHANGES[Changed(kind)].method and self._filter.get(name) is True:
                        view.lists.changed(kind)
                self._exchange.send(method, translation.to_client(method, params))

        try:
            while not member.retired:
                rounds, outcome = rounds + 1, Outcome()
                params = {**(self._exchange.incoming.params or {}), "notifications": wanted}
                await view.part(member, self._exchange, outcome.take, params, LISTEN, send)
                self._confirm(member, None)
                if as_object(outcome.error).get("code") == METHOD_NOT_FOUND:
                    return
                failed = None if outcome.error is None else RpcError.from_wire(outcome.error)
                await attempts.wait(outcome.refusal or failed)
        finally:
            attempts.end()
            self._confirm(member, None)

    def _all_changed(self, member: Member, wanted: JsonObject, translation: Translation) -> None:
        """Tell the client that everything may have changed at a server which was away."""
        self.changed(member)
        updated = CHANGES[Changed.RESOURCE].method
        for uri in as_list(wanted.get(_RESOURCES)) or () if self._begun else ():
            self._send(updated, as_object(translation.to_client(updated, {"uri": uri})))

    def _confirm(self, member: Member, params: JsonObject | None) -> None:
        if params is not None and not self._begun and member in self._waiting:
            confirmed = as_object(params.get("notifications")).get(_RESOURCES)
            self._accepted += [uri for uri in as_list(confirmed) or () if isinstance(uri, str)]
        self._waiting.discard(member)
        if not self._waiting:
            self._confirmed.set()

    def _send(self, method: str, params: JsonObject) -> None:
        meta = {**as_object(params.get("_meta")), SUBSCRIPTION_ID: self._exchange.incoming.id}
        self._exchange.send(method, {**params, "_meta": meta})

    # -- servers that go and come --------------------------------------------------------------------------------

    def changed(self, _member: Member | None) -> None:
        """Tell the client that the lists have changed, if it wants to know."""
        for kind, name in _MEMBERS.items():
            self._view.lists.changed(kind)
            if self._filter.get(name) is True and self._begun:
                self._send(CHANGES[Changed(kind)].method, {})

    def replaced(self, gone: list[Member]) -> None:
        """Continue with the servers that the bridge has now."""
        for member in gone:
            task = self._streams.pop(member, None)
            if task is not None:
                task.cancel()
        for member in self._view.hub.members.values():
            if member not in self._streams:
                self._start(member)
        self.changed(None)
