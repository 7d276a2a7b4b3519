"""A client of several servers: which of them its requests lead to, and what it gets back (SEAM-10, SEC-5).

The subject of a request decides: the name or URI in its params, or the task. A request about nothing that a server has,
and every method that no schema has, is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mcprev.bridge.pair import Rule
from mcprev.bridge.relay import Exchange
from mcprev.bridge.several.asking import LOG_IN, asks_to_log_in, without_login
from mcprev.bridge.several.introductions import info_of
from mcprev.bridge.several.lists import MergedLists
from mcprev.bridge.several.login_required import LoginRequired
from mcprev.bridge.several.names import Names, Naming
from mcprev.bridge.several.options import RESOURCES, TOOLS
from mcprev.bridge.several.parts import Answered, Outcome, Part, PartExchange
from mcprev.bridge.several.places import SKILLS_LIST, Mark, Places, Subject, places_of
from mcprev.bridge.several.translation import Translation, reference_kind
from mcprev.conversion.rules import JsonObject, as_list, as_object, without
from mcprev.core.capabilities import extension_settings
from mcprev.core.interfaces import message_origin, principal_of
from mcprev.errors import InvalidParams, Json, MethodNotFound, RpcError
from mcprev.extensions.skills.rules import NAME as SKILLS
from mcprev.protocol.connection_state import IncomingRequest
from mcprev.protocol.engine import declares
from mcprev.protocol.mrtr import STATE, is_input_required
from mcprev.protocol.uris import same_uri
from mcprev.revisions import Revision
from mcprev.wire.meta_keys import SERVER_INFO

if TYPE_CHECKING:
    from mcprev.bridge.several.hub import Hub
    from mcprev.bridge.several.member import Member

_TASKS: Final = "tasks/"
_BY_TASK: Final = Subject("taskId", Mark.TASK, "tasks")
"""What requests of the tasks extension are about, which no schema has."""


@dataclass(frozen=True, slots=True)
class _Named:
    """What a name or URI of a client leads to."""

    naming: Naming
    kind: str
    names: list[str]
    """The names or URIs under which lists have it."""
    key: str
    """Its name or URI without prefix, after it was renamed."""
    own: str
    """What the server calls it."""

    def is_called(self, text: str) -> bool:
        """Return whether lists have it under a name or URI, in the spelling of a client."""
        return text in self.names or (self.kind == RESOURCES and same_uri(text, self.names[0]))


def _named_in(subject: Subject, value: Json) -> tuple[str, str | None]:
    """Return the kind of what params are about, and its name or URI if that is a text."""
    kind, text = subject.kind, value
    if subject.mark is Mark.REFERENCE:
        reference = as_object(value)
        kind = reference_kind(reference)
        text = reference.get("uri" if kind == RESOURCES else "name")
    return kind, text if isinstance(text, str) else None


def _with_name(subject: Subject, kind: str, value: Json, name: str) -> Json:
    """Return the value of params with another name or URI."""
    if subject.mark is not Mark.REFERENCE:
        return name
    return {**as_object(value), "uri" if kind == RESOURCES else "name": name}


async def check_asked_scopes(incoming: IncomingRequest, params: JsonObject) -> None:
    """Raise the error of a request that its client could not make with these params."""
    origin = message_origin(incoming)
    refusal: Any = None if origin is None else getattr(origin.access, "refusal", None)
    error = None if refusal is None else await refusal(incoming.method, params)
    if error is not None:
        raise error


class SeveralClient:
    """Leads the requests of one client to the servers. Subclasses are of sessions and of stateless clients."""

    def __init__(self, hub: Hub, revision: Revision) -> None:
        self.hub = hub
        self.revision = revision
        self.places: Places = places_of(revision)
        self.names: Names = Names(lambda: hub.namings, hub.prefixes, hub.may_list)
        """The names that the client sees."""
        self._translations: dict[str, Translation] = {}
        self.lists: MergedLists = MergedLists(self)
        """The lists of all servers."""

    async def run(self, member: Member, exchange: PartExchange) -> None:
        """Let a server serve a part of a request. Raises `McpError`."""
        raise NotImplementedError

    def capabilities(self, member: Member) -> JsonObject | None:
        """Return what a server declares; None as long as that is not known."""
        raise NotImplementedError

    def declares(self, member: Member, kind: str) -> bool:
        """Return whether a server has lists of a kind, as far as is known."""
        known = self.capabilities(member)
        return known is None or declares(known, kind)

    def has_list(self, member: Member, method: str, kind: str) -> bool:
        """Return whether a server has the list of a method, as far as is known."""
        known = self.capabilities(member)
        of_extension = method == SKILLS_LIST and known is not None
        return self.declares(member, kind) and not (
            of_extension and extension_settings(known or {}, SKILLS) is None
        )

    def send(self, member: Member, exchange: Exchange, method: str, params: JsonObject | None) -> None:
        """Send the client a notification of a server about a request."""
        del member
        exchange.send(method, params)

    # -- requests ------------------------------------------------------------------------------------------------

    async def serve(self, exchange: Exchange) -> None:
        """Answer a request that leads to one server, or one for a list. Raises `McpError`."""
        method = exchange.incoming.method
        entries = self.places.entries(method)
        if entries is not None:
            await self.lists.serve(exchange, entries)
            return
        subject = self._subject(method)
        if subject is None:
            raise MethodNotFound(
                f"Method not found: {method} (it does not identify one of the several servers: {Rule.METHOD})"
            )
        naming, params = await self._routed(exchange, subject)
        member = self.hub.members.get(naming.server)
        if member is None:
            raise self._unknown(subject, (exchange.incoming.params or {}).get(subject.member))
        if params.get(STATE) is not None:
            principal = principal_of(exchange.incoming)
            generation, state = self.hub.seals.own_state(
                params[STATE], member.name, exchange.incoming, principal
            )
            member = self.hub.retired.get(generation, member)
            params = {**params, STATE: state} if state is not None else without(params, STATE)
        if member.spec.logs_in:
            logs_in = subject.kind == TOOLS and params.get(subject.member) == LOG_IN
            if logs_in and await self._log_in(member, exchange):
                return
            params = without_login(params)
        await self.serve_part(member, exchange, params)

    async def _routed(self, exchange: Exchange, subject: Subject) -> tuple[Naming, JsonObject]:
        """Return the server that a request leads to, and the params for it. Raises `McpError`."""
        await self.lists.ensure(exchange)
        incoming = exchange.incoming
        params, principal = incoming.params or {}, principal_of(incoming)
        value: Json = params.get(subject.member)
        if subject.mark is Mark.TASK:
            server, value = self.hub.seals.own_task(value, principal)
            found = self.names.namings.servers.get(server)
            if found is None:
                raise InvalidParams("Invalid params: the server of the task has been removed")
            # The other ids are translated by type, this one is open already.
            return found, self._params(exchange, found, params, subject.member, value)
        kind, text = _named_in(subject, value)
        if text is None:
            raise InvalidParams(f"Invalid params: {subject.member} is missing")
        named = await self._named(exchange, kind, text)
        if named is None or not named.is_called(text):
            raise self._unknown(subject, text)
        told = _with_name(subject, kind, value, named.own)
        return named.naming, self._params(exchange, named.naming, params, subject.member, told)

    def _subject(self, method: str) -> Subject | None:
        subject = self.places.subject(method)
        if subject is None and method.startswith(_TASKS) and not self.revision.handshake:
            return _BY_TASK
        return subject

    async def canonical(self, exchange: Exchange) -> None:
        """Give a request the name or URI under which lists have what it is about. Raises the error of a client that may not.

        All that decides about the request, such as middleware, sees that one.
        """
        incoming = exchange.incoming
        subject, params = self._subject(incoming.method), incoming.params or {}
        if subject is None or subject.mark is Mark.TASK or self.places.entries(incoming.method) is not None:
            return
        kind, text = _named_in(subject, params.get(subject.member))
        if text is None:
            return
        await self.lists.ensure(exchange)
        named = await self._named(exchange, kind, text)
        if named is None:
            return
        if not named.is_called(text):
            value = _with_name(subject, kind, params[subject.member], named.names[0])
            incoming.params = {**params, subject.member: value}
        for name in dict.fromkeys((*named.names[:1], *self.names.all_names(named.naming, kind, named.key))):
            if name != text:
                value = _with_name(subject, kind, params[subject.member], name)
                await check_asked_scopes(incoming, {**params, subject.member: value})

    async def _named(self, exchange: Exchange, kind: str, text: str) -> _Named | None:
        """Return the server that a name or URI leads to and what the server calls it, or None."""
        found = self.names.find(kind, text)
        unsure = found is None or self.names.may_stand_for(kind, text)
        if unsure and await self.lists.read_for(exchange, kind):
            found = self.names.find(kind, text)
        if found is None:
            return None
        naming, own = found
        names = [self.names.spelled(naming, kind, own)]
        if kind == RESOURCES:
            return _Named(naming, kind, names, own, own) if naming.offer.allows(kind, own) else None
        member = self.hub.members.get(naming.server)
        if own == LOG_IN and member is not None and member.spec.logs_in:
            return _Named(naming, kind, [naming.name(LOG_IN), *names], LOG_IN, LOG_IN)
        meant = naming.offer.meant(kind, own)
        return None if meant is None else _Named(naming, kind, names, own, meant)

    def _params(
        self, exchange: Exchange, naming: Naming, params: JsonObject, member: str, value: Json
    ) -> JsonObject:
        translation = self.translation(naming, principal_of(exchange.incoming))
        return {**translation.params(exchange.incoming.method, without(params, member)), member: value}

    def _unknown(self, subject: Subject, value: Json) -> RpcError:
        text = f"{value!r:.200} leads to no server, or to several: use a name from the lists"
        if subject.mark is Mark.URI:
            return RpcError(
                f"Resource not found: {text}", code=self.revision.resource_not_found, data={"uri": value}
            )
        return InvalidParams(f"Invalid params: {text}")

    # -- parts ---------------------------------------------------------------------------------------------------

    def translation(self, naming: Naming, principal: str | None) -> Translation:
        """Return the translation between this client and a server."""
        found = self._translations.get(naming.server)
        if found is None or found.naming is not naming or found.principal != principal:
            found = Translation(self.places, self.names, naming, self.hub.seals, principal)
            self._translations[naming.server] = found
        return found

    async def serve_part(
        self, member: Member, exchange: Exchange, params: JsonObject | None, method: str | None = None
    ) -> None:
        """Let a server answer a request of the client."""
        incoming, naming = exchange.incoming, member.naming
        principal = principal_of(incoming)
        translation = self.translation(naming, principal)

        def answered(
            result: dict[str, Json] | None, error: dict[str, Json] | None, refusal: BaseException | None
        ) -> None:
            if isinstance(refusal, LoginRequired):
                self._ask_to_log_in(exchange, refusal)
                return
            if result is None:
                if error is not None:
                    exchange.refuse(self._located(translation.error(error), exchange, params))
                return
            found = translation.result(incoming.method, result)
            if is_input_required(found) and found.get(STATE) is not None:
                found = {
                    **found,
                    STATE: self.hub.seals.state(
                        member.name, member.generation, found[STATE], incoming, principal
                    ),
                }
            exchange.answer(self.signed(found))

        def send(name: str, given: dict[str, Json] | None) -> None:
            if name in self.revision.methods:
                self.send(member, exchange, name, translation.to_client(name, given))

        await self.part(member, exchange, answered, params, method, send)

    def _ask_to_log_in(self, exchange: Exchange, required: LoginRequired) -> None:
        result, error = asks_to_log_in(exchange.incoming, required)
        if result is not None:
            exchange.answer({**result, "_meta": {SERVER_INFO: info_of(self.hub.own)}})
        elif error is not None:
            exchange.refuse(error)

    async def _log_in(self, member: Member, exchange: Exchange) -> bool:
        """Answer a call of the tool that leads to the login; return whether it is not one of the server itself."""
        outcome = await self.ask(member, exchange, "tools/list", None)
        listed = as_list((outcome.result or {}).get("tools")) or ()
        if isinstance(outcome.refusal, LoginRequired):
            self._ask_to_log_in(exchange, outcome.refusal)
        elif outcome.error is not None:
            exchange.refuse(outcome.error)
        elif any(as_object(tool).get("name") == LOG_IN for tool in listed):
            return False
        else:
            text = f"You are logged in at '{member.name}'; list the tools again."
            result: JsonObject = {"content": [{"type": "text", "text": text}]}  # makes CallToolResult
            if not self.revision.handshake:
                result |= {"resultType": "complete", "_meta": {SERVER_INFO: info_of(self.hub.own)}}
            exchange.answer(result)
        return True

    def _located(self, error: JsonObject, exchange: Exchange, params: JsonObject | None) -> JsonObject:
        """Return an error whose data names a resource as the client does, if it is the one of the request."""
        data, given = as_object(error.get("data")), exchange.incoming.params or {}
        if "uri" in data and data["uri"] == (params or {}).get("uri") and "uri" in given:
            return {**error, "data": {**data, "uri": given["uri"]}}
        return error

    async def part(
        self,
        member: Member,
        exchange: Exchange,
        answered: Answered,
        params: JsonObject | None,
        method: str | None = None,
        send: Callable[[str, dict[str, Json] | None], None] = lambda _method, _params: None,
    ) -> None:
        """Let a server serve a part of a request; its answer goes to a function."""
        part = Part(exchange.incoming, answered, params, method)
        inner = PartExchange(member.relay, part, exchange, send)
        inner.server = f"the server '{member.name}'"
        with member.serving():
            try:
                await self.run(member, inner)
            except Exception as error:  # noqa: BLE001 - it is no error of the other servers
                inner.fail(error, None)

    async def ask(
        self, member: Member, exchange: Exchange, method: str, params: JsonObject | None
    ) -> Outcome:
        """Return what a server answers to a request of the bridge's own, on behalf of one of the client."""
        outcome = Outcome()
        meta = without(as_object((exchange.incoming.params or {}).get("_meta")), "progressToken")
        given = {**(params or {}), **({"_meta": meta} if meta else {})}
        await self.part(member, exchange, outcome.take, given or None, method)
        return outcome

    async def ask_all(
        self, members: list[Member], exchange: Exchange, method: str, params: JsonObject | None
    ) -> dict[str, Outcome]:
        """Return what several servers answer."""
        outcomes = await asyncio.gather(*(self.ask(each, exchange, method, params) for each in members))
        return {each.name: outcome for each, outcome in zip(members, outcomes, strict=True)}

    def signed(self, result: JsonObject) -> JsonObject:
        """Return a result with the name of the bridge where results of the revision have that of their server."""
        meta = as_object(result.get("_meta"))
        if SERVER_INFO not in meta:
            return result
        return {**result, "_meta": {**meta, SERVER_INFO: info_of(self.hub.own)}}
