"""The context of a server's handler: the sender of the request, and methods to send messages while it is served.

SEAM-1, LOG-5, PROG-2, MRTR-1..11, SUB-8. Everything is in the types of the latest revision.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from mcprev.conversion import PayloadKind, convert
from mcprev.core import input_requests as asking
from mcprev.core.capabilities import extension_settings
from mcprev.core.interfaces import client_at, message_origin, principal_of
from mcprev.errors import ConversionError, Json, LocalProtocolError, RemoteProtocolError
from mcprev.protocol import mrtr
from mcprev.protocol.connection_state import IncomingRequest, NotificationReceived
from mcprev.protocol.engine import check_level
from mcprev.protocol.handshake import HandshakeServer
from mcprev.protocol.stateless import missing_capability
from mcprev.protocol.subscriptions import Changed
from mcprev.protocol.tasks import related
from mcprev.revisions import LATEST
from mcprev.server.in_threads import wait_in_thread
from mcprev.server.sending import ASK_TIMEOUT, SendingContext
from mcprev.wire.jsonrpc import Request
from mcprev.wire.meta_keys import CLIENT_CAPABILITIES, CLIENT_INFO

if TYPE_CHECKING:
    from mcprev.core.questions import Elicited, Prompt, Sampled
    from mcprev.core.store import Records
    from mcprev.server.session_state import SessionState
    from mcprev.server.task_execution import TaskExecution
    from mcprev.transports.http.server.access import Access
    from mcprev_types.latest import models

T = TypeVar("T")
LOG = "notifications/message"


@dataclass(eq=False, repr=False)
class Context(SendingContext):
    """The context of a request, for a server's handler: its sender, and methods to send messages to the client.

    It is passed to each method of a handler, and to each function of an app with a parameter that is annotated
    `mcprev.Context`.
    """

    stamp: Mapping[str, Json]
    """The parts of the request's `_meta` that describe the client: its revision, name and capabilities."""
    _answers: mrtr.InputResponses | None = None
    asked: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """How often each question was asked with `elicit` or `sample` in this run of the handler, by its text."""
    kept: dict[object, object] | None = field(default=None, init=False)
    """What parts of the server and its middleware keep for this context, by their `mcprev.server.kept.Kept`; None: nothing."""
    running: TaskExecution | None = field(default=None, init=False)
    """Turns the request into a task; None if the request cannot become one."""

    @property
    def as_task(self) -> TaskExecution | None:
        """The execution of the task that the request has become; None if it has not become a task."""
        return None if self.running is None or self.running.task is None else self.running

    @property
    def answers(self) -> mrtr.InputResponses:
        """The responses to `ask` so far, by key."""
        if self._answers is None:
            self._answers = mrtr.InputResponses()
        return self._answers

    @property
    def principal(self) -> str | None:
        """The authenticated sender of the request: the subject of its token, or the result of the option `principal`.

        None on stdio, in memory, and over HTTP without authentication.
        """
        return principal_of(self.request)

    @property
    def access(self) -> Access | None:
        """The content of the request's access token; None if the server requires none (`auth=mcprev.Bearer(...)`)."""
        origin = message_origin(self.request)
        return None if origin is None else cast("Access | None", origin.access)

    @property
    def session_id(self) -> str | None:
        """The id of the session over HTTP, for `Server.notify_session`; None where there is none."""
        return self._connection.session_id

    @cached_property
    def session(self) -> SessionState:
        """The session state: JSON values that are kept between requests, such as `await ctx.session.get("cart")`.

        They belong to the session; at revisions without sessions over HTTP, to the principal, or to a handle.
        """
        return self._server.session_states.of(
            self._connection, self.principal, client_at(message_origin(self.request))
        )

    @property
    def store(self) -> Records | None:
        """The records that all processes of the server share, under keys of your own; None without `Server(store=...)`."""
        return self._server.store

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the HTTP request, with names in lower case; empty on other transports.

        The client can send anything in them: use `principal` and `access` for decisions. `authorization` and `cookie`
        contain secrets; do not log them.
        """
        origin = message_origin(self.request)
        return {} if origin is None else origin.headers.texts()

    @property
    def state(self) -> str | None:
        """A string that the handler keeps for its next run, which follows the answer to `ask`; None in the first run.

        At stateless revisions the client carries it: the client can read the string, but not change it.
        """
        return self.answers.state

    @state.setter
    def state(self, value: str | None) -> None:
        self.answers.state = value

    @property
    def capabilities(self) -> Mapping[str, Json]:
        """The capabilities that the client declared, as JSON of the latest revision; see `client_capabilities`."""
        declared: Mapping[str, Json] = self.stamp.get(CLIENT_CAPABILITIES) or {}
        return declared

    def client_supports(self, extension: str) -> bool:
        """Return whether the client and this server both declare an extension, such as `io.modelcontextprotocol/ui`."""
        own = self._server.identity.capabilities(self.request.revision)
        return all(extension_settings(each, extension) is not None for each in (self.capabilities, own))

    @cached_property
    def client_info(self) -> models.Implementation | None:
        """The name and version that the client declares, which are not authenticated; None if it declares none."""
        info = self.stamp.get(CLIENT_INFO)
        if info is None:
            return None
        found: models.Implementation = LATEST.models.Implementation.from_wire(info)
        return found

    @cached_property
    def client_capabilities(self) -> models.ClientCapabilities:
        """The capabilities that the client declared for this request, in the types of the latest revision."""
        found: models.ClientCapabilities = LATEST.models.ClientCapabilities.from_wire(self.capabilities)
        return found

    async def log(self, level: models.LoggingLevel, data: Json, logger: str | None = None) -> None:
        """Send a log message to the client, if it requested messages of this level; `logger` is the name of the logger.

        `level` is `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`; `data` is any JSON
        value. Raises `ValueError` for another level. See
        https://modelcontextprotocol.io/specification/latest/server/utilities/logging.
        """
        check_level(level)
        incoming = self.request
        if not incoming.engine.allows_log(incoming, level) or LOG not in incoming.revision.methods:
            await self._connection.drain(incoming)
            return
        params: dict[str, Json] = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        if self.running is not None and self.running.task is not None:
            params["_meta"] = related(self.running.task)
        await self.notify(LOG, params)

    async def debug(self, data: Json, logger: str | None = None) -> None:
        """Send a log message of the level `debug`; see `log`."""
        await self.log("debug", data, logger)

    async def info(self, data: Json, logger: str | None = None) -> None:
        """Send a log message of the level `info`; see `log`."""
        await self.log("info", data, logger)

    async def warning(self, data: Json, logger: str | None = None) -> None:
        """Send a log message of the level `warning`; see `log`."""
        await self.log("warning", data, logger)

    async def error(self, data: Json, logger: str | None = None) -> None:
        """Send a log message of the level `error`; see `log`."""
        await self.log("error", data, logger)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of a coroutine, for functions without `async`: `ctx.wait(ctx.progress(1, 2))`.

        The function has to run in a thread, as functions of an `App` without `async` do, and as its dependencies do.
        Blocks until the coroutine has ended, and raises what it raises. Raises `LocalProtocolError` in the event loop.
        """
        return wait_in_thread(work)

    async def detach(
        self, *, ttl: int | None = None, poll_interval: int | None = None, message: str | None = None
    ) -> None:
        """Respond with a task and continue in the background, if the tool and the client support tasks.

        Otherwise this does nothing, and the client waits for the result. If the client itself called the tool as a task,
        as at 2025-11-25, the call is a task before the handler starts, and this sets its message only.

        `ttl` is the maximum time that the task is kept after its creation and `poll_interval` the time that the
        client should wait between two requests for its status, both in milliseconds; None: as `Tasks` specifies.
        `message` is the first status message. Raises `InternalError` if too many tasks run.
        """
        if self.running is not None:
            await self.running.detach(ttl, poll_interval, message)

    async def set_status(self, message: str) -> None:
        """Set the status message of the task, for the user; does nothing if the request is not a task."""
        if self.running is not None:
            await self.running.set_status(message)

    async def close_stream(self, *, retry: float | None = None) -> bool:
        """Close the event stream of an HTTP request that continues; the client reconnects after `retry` seconds.

        A long request then needs no open connection. Returns whether the stream was closed. It is not if the client
        uses another transport, if its revision does not define reconnecting, or if the server stores no events. With
        `retry` None, the client chooses the time. See
        https://modelcontextprotocol.io/specification/latest/basic/transports.
        """
        return await self._connection.hang_up(self.request, retry)

    def lifespan(self, kind: type[T]) -> T:
        """Return the value that the lifespan of the server yields, by its type: `ctx.lifespan(Database)`.

        Raises `LocalProtocolError` if the server has no lifespan, if the lifespan does not run, and if it yields no
        value or several values of the type.
        """
        runner = self._server.lifespan
        if runner is None:
            raise LocalProtocolError("the server has no lifespan; pass one, as in Server(..., lifespan=f)")
        return runner.value(kind)

    def changed(self, what: Changed | str, uri: str | None = None) -> None:
        """Notify clients that the list of `tools`, `prompts` or `resources` changed, or one `resource` with its `uri`.

        See `Server.changed`.
        """
        self._server.changed(what, uri)

    @overload
    async def ask(
        self, key: str, request: models.ElicitRequest, *, timeout: float | None = ASK_TIMEOUT
    ) -> models.ElicitResult: ...
    @overload
    async def ask(
        self, key: str, request: models.CreateMessageRequest, *, timeout: float | None = ASK_TIMEOUT
    ) -> models.CreateMessageResult: ...
    @overload
    async def ask(
        self, key: str, request: models.ListRootsRequest, *, timeout: float | None = ASK_TIMEOUT
    ) -> models.ListRootsResult: ...
    async def ask(
        self,
        key: str,
        request: models.ElicitRequest | models.CreateMessageRequest | models.ListRootsRequest,
        *,
        timeout: float | None = ASK_TIMEOUT,
    ) -> object:
        """Ask the client for user input, a message of its model, or its roots; return the result in the request's type.

        `elicit`, `sample` and `roots` are shorter forms. `key` identifies the question: each question of a handler
        needs its own key, which must be the same when the handler runs again. `timeout` is the time in seconds that the
        client has to answer, 600 by default; None: no limit. At stateless revisions it applies to tasks only.

        At stateless revisions a server cannot send requests. There, `ask` ends the handler, and the handler runs again
        from its start when the client has sent the answer: code before an `ask` must be safe to run twice, and only
        handlers of `tools/call`, `prompts/get` and `resources/read` can ask.

        Raises `MissingClientCapability` for a capability that the client has not declared, `ConversionError` for a
        question that its revision cannot express, `LocalProtocolError` for an invalid question, such as a form with
        nested fields, `RpcError` if the client responds with an error, `RequestTimeout` and `ConnectionLost`. See the
        page on multi round-trip requests of https://modelcontextprotocol.io/specification/latest.
        """
        incoming = self.request
        if not hasattr(request, "to_wire"):
            raise TypeError(
                f"`ask` takes a request such as mcprev_types.latest.models.ElicitRequest(...), not a {type(request).__name__}"
            )
        wire = asking.checked_request(request.to_wire(), incoming.revision, self.capabilities)
        known = self.answers.given.get(key)
        if known is None:
            error = asking.check_askable(wire, self.capabilities, incoming.revision)
            if error is not None:
                raise error
            task = self.as_task
            if task is None and incoming.revision.input_in_results:
                raise mrtr.InputRequired(key, wire)
            answer = (
                self.send_request(wire, timeout=timeout) if task is None else task.ask(key, wire, timeout)
            )
            known = self.answers.given[key] = await answer
        elif incoming.revision.input_in_results:
            known = asking.fitting(key, wire, known)
        return asking.read_answer(key, wire, known)

    @overload
    async def elicit(
        self, message: str, kind: type[T], *, timeout: float | None = ASK_TIMEOUT
    ) -> Elicited[T]: ...
    @overload
    async def elicit(
        self, message: str, kind: Sequence[str], *, timeout: float | None = ASK_TIMEOUT
    ) -> Elicited[str]: ...
    async def elicit(
        self, message: str, kind: type[object] | Sequence[str], *, timeout: float | None = ASK_TIMEOUT
    ) -> Elicited[object]:
        """Ask the user to fill in a form, and return `Accepted` with the data, `Declined` or `Cancelled`.

        `kind` is a model, dataclass or TypedDict with one member for each field of the form; a type such as `int` for a
        form with a single value; or a list of strings, of which the user chooses one. Members are strings, numbers,
        booleans, dates, enums, and lists of enums; a member that may be None can be left empty. `timeout` is in seconds, as for `ask`.

        At stateless revisions, the handler runs again from its start when the user has answered, as with `ask`. The
        message is the key of the question; the same message asked twice in one run is two questions. Raises the errors
        of `ask`, `TypeError` for a type that no form can ask for, `ValueError` for a list without a choice, and `InvalidParams` for an answer that is not of the
        type.
        """
        from mcprev.core.questions import form_of

        form = form_of(kind)
        return form.read(message, await self.ask(self._key(message), form.request(message), timeout=timeout))

    async def sample(
        self,
        messages: Prompt | Sequence[Prompt],
        *,
        system_prompt: str | None = None,
        max_tokens: int = 1024,
        temperature: float | None = None,
        stop_sequences: list[str] | None = None,
        model_preferences: models.ModelPreferences | None = None,
        timeout: float | None = ASK_TIMEOUT,
    ) -> Sampled:
        """Ask the model of the client for a message, and return it: `(await ctx.sample("Say hello")).text`.

        `messages` is one message or a list of them. Texts, images and audio have the role `user`; a `SamplingMessage`
        sets its role. `max_tokens` limits the length of the message; `temperature`, `stop_sequences` and
        `model_preferences` are requests that the client may ignore. `timeout` is in seconds, as for `ask`. At stateless
        revisions, the handler runs again from its start when the client has answered. Raises the errors of `ask`.
        """
        from mcprev.core.questions import sampled, sampling_request

        request = sampling_request(
            messages,
            system_prompt=system_prompt,
            max_tokens=max_tokens,
            temperature=temperature,
            stop_sequences=stop_sequences,
            model_preferences=model_preferences,
        )
        content = request.params.messages[0].content if request.params.messages else None
        key = self._key(getattr(content, "text", "sample"))
        return sampled(await self.ask(key, request, timeout=timeout))

    async def roots(self, *, timeout: float | None = ASK_TIMEOUT) -> list[models.Root]:
        """Ask the client for its roots, and return them. Raises the errors of `ask`.

        At stateless revisions, the handler runs again from its start when the client has answered.
        """
        from mcprev_types.latest import models

        return (await self.ask(self._key("roots"), models.ListRootsRequest(), timeout=timeout)).roots

    def _key(self, message: str) -> str:
        """Return the key of a question; the same one at the same place when the handler runs again."""
        key = message[:60]
        count = self.asked[key] = self.asked.get(key, 0) + 1
        return key if count == 1 else f"{key} ({count})"

    async def send_request(
        self, request: Mapping[str, Json], *, timeout: float | None = ASK_TIMEOUT
    ) -> dict[str, Json]:
        """Send a request to the client; return its result in the types of the latest revision. Needs a session."""
        revision, method = self.request.revision, str(request["method"])
        if method not in revision.methods:
            raise missing_capability({method.split("/", maxsplit=1)[0]: {}})
        given, downgrade = request.get("params"), self._server.on_downgrade
        asked = convert(given, method, PayloadKind.PARAMS, from_=LATEST, to=revision, on_downgrade=downgrade)
        answer = mrtr.without_empty_fields(await self.raw(method, asked, timeout=timeout))
        wrong = asking.response_mismatch(method, asked, answer)
        if wrong is not None:
            raise RemoteProtocolError(f"the answer to '{method}' is not valid: {wrong}", raw=answer)
        try:
            result = convert(answer, method, PayloadKind.RESULT, from_=revision, to=LATEST)
        except ConversionError as error:
            raise RemoteProtocolError(
                f"the answer to '{method}' is not valid: {error}", raw=answer
            ) from error
        return asking.without_unaccepted_content(method, asked, result)


def unasked(session: HandshakeServer, notified: NotificationReceived) -> IncomingRequest:
    """Return the substitute for a request in the context of a notification: it has no id and cannot be answered."""
    request = Request(cast("Any", None), notified.method, notified.params, notified.origin)
    incoming = IncomingRequest(session, notified.revision, request, None, session.peer_capabilities or {})
    incoming.open = False
    return incoming
