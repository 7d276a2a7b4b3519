"""A proxy between a client of one revision and a server of another, made of the public converters and nothing else.

It shows that they are enough (SEAM-10): it relays discovery, requests and results, and turns questions inside
results into requests of sessions and back. Both of its ends judge what they get, as all peers by hand do.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import mcprev
from api.wire import CLIENT_CAPABILITIES, SERVER_INFO, Error, HandClient, HandServer, Message
from mcprev.conversion import PayloadKind, convert, initialize_to_discover, request_meta
from mcprev.errors import ConversionError
from mcprev.revisions import LATEST, Revision
from mcprev.transports.memory import connect_pair

ANSWERS, STATE = "inputResponses", "requestState"


class Upstream(HandClient):
    """The end that faces the server: what a session's server asks waits for whoever made the call."""

    def __init__(self, row: Revision) -> None:
        super().__init__(row)
        self.asked: asyncio.Queue[Message] = asyncio.Queue()

    def reply(self, request: Message) -> Message | Error | None:
        self.asked.put_nowait(request)
        return None


class Proxy(HandServer):
    """The end that faces the client, and the relay itself."""

    def __init__(self, row: Revision, server: mcprev.Server, of: Revision) -> None:
        super().__init__(row)
        self.up = Upstream(of)
        self._server = server.connection()
        connect_pair(self.up, self._server)
        self._stamp: Message = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._parked: dict[str, tuple[asyncio.Task[Message], Message]] = {}

    async def aclose(self) -> None:
        for task in (*self._tasks, *(call for call, _ in self._parked.values())):
            task.cancel()
        await super().aclose()
        await self._server.aclose()

    # -- who is there --------------------------------------------------------------------------------------

    def reply(self, request: Message) -> Message | Error | None:
        task = asyncio.create_task(self._serve(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return None

    async def _serve(self, request: Message) -> None:
        try:
            answer = await self._respond(request["method"], request.get("params"))
        except Exception as fault:  # noqa: BLE001 - it is raised in the test's own task
            self._faults.append(fault)
            answer = Error(-32603)
        kind = "error" if isinstance(answer, Error) else "result"
        value = answer.wire if isinstance(answer, Error) else answer
        self.send({"jsonrpc": "2.0", "id": request["id"], kind: value})

    async def _respond(self, method: str, params: Any) -> Message | Error:
        if method in {"initialize", "server/discover"}:
            return await self._introduce(params)
        if not self.revision.handshake:
            self._stamp = params["_meta"]
        self.up.capabilities = self._capabilities()
        return await self._relay(method, params)

    async def _introduce(self, params: Message) -> Message:
        """Open upstream as the client that came, and say of the server what it says of itself."""
        stamp = request_meta(params, from_=self.revision.name) if self.revision.handshake else params["_meta"]
        self._stamp = stamp
        self.up.capabilities = self._capabilities()
        await self.up.open()
        said, there = self.up.hello, self.up.revision
        found = initialize_to_discover(said, from_=there.name) if there.handshake else said
        if self.revision.handshake:
            return self._initialized(found)
        return {**found, "supportedVersions": [self.revision.version]}

    def _initialized(self, found: Message) -> Message:
        """A DiscoverResult of the latest revision as the InitializeResult of the client's revision."""
        members = {name: found[name] for name in ("instructions",) if name in found}
        return {
            **members,
            "protocolVersion": self.revision.version,
            "capabilities": self._part(found["capabilities"], PayloadKind.SERVER_CAPABILITIES, self.revision),
            "serverInfo": self._part(found["_meta"][SERVER_INFO], PayloadKind.IMPLEMENTATION, self.revision),
        }

    def _capabilities(self) -> Message:
        """What the client can do, in the words of the server's revision."""
        return self._part(self._stamp[CLIENT_CAPABILITIES], PayloadKind.CLIENT_CAPABILITIES, self.up.revision)

    def _part(self, value: Message, kind: PayloadKind, to: Revision) -> Message:
        """Capabilities or an Implementation of the latest revision at another one."""
        found: Message = convert(value, "", kind, from_=LATEST, to=to)
        return found

    # -- requests ------------------------------------------------------------------------------------------

    async def _relay(self, method: str, params: Any) -> Message | Error:
        state = None if params is None else cast("Message", params).get(STATE)
        if isinstance(state, str) and state in self._parked:
            return await self._resume(state, cast("Message", params))
        here, there = self.revision, self.up.revision
        given = convert(params, method, PayloadKind.PARAMS, from_=here, to=there, meta=self._stamp)
        call = asyncio.create_task(self._call(method, given))
        return await self._follow(method, given, call)

    async def _call(self, method: str, params: Any) -> Message:
        return (await self.up.ask(method, params)).message

    async def _follow(self, method: str, params: Any, call: asyncio.Task[Message]) -> Message | Error:
        """Wait for the answer, and pass on what is asked before it."""
        while True:
            asked = asyncio.create_task(self.up.asked.get())
            await asyncio.wait({call, asked}, return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                asked.cancel()
                return await self._finish(method, params, call.result())
            request = asked.result()
            if not self.revision.handshake:
                return self._park(call, request)
            await self._pass_on(request)

    async def _finish(self, method: str, params: Any, message: Message) -> Message | Error:
        here, there = self.revision, self.up.revision
        if "error" in message:
            error: Message = convert(message["error"], method, PayloadKind.ERROR, from_=there, to=here)
            return Error(error["code"], error["message"], error.get("data"))
        result = message["result"]
        if result.get("resultType") == "input_required" and here.handshake:
            return await self._ask_down(method, params, result)
        converted: Message = convert(result, method, PayloadKind.RESULT, from_=there, to=here)
        return converted

    # -- questions -----------------------------------------------------------------------------------------

    async def _ask_down(self, method: str, params: Any, result: Message) -> Message | Error:
        """A result asks, a session is asked by requests; then the call is made again with the answers."""
        answers: Message = {}
        try:
            questions = {
                key: (
                    asked["method"],
                    convert(
                        asked.get("params"),
                        asked["method"],
                        PayloadKind.PARAMS,
                        from_=LATEST,
                        to=self.revision,
                    ),
                )
                for key, asked in result["inputRequests"].items()
            }
        except ConversionError as error:
            text = f"This needs input that the client does not offer: {error}"
            if method == "tools/call":
                return {"content": [{"type": "text", "text": text}], "isError": True}
            return Error(-32602, text)
        for key, (asks, question) in questions.items():
            answer = (await self.ask(asks, question)).message
            if "error" in answer:
                return Error(answer["error"]["code"], answer["error"]["message"])
            answers[key] = convert(answer["result"], asks, PayloadKind.RESULT, from_=self.revision, to=LATEST)
        again = {**params, ANSWERS: answers} | ({STATE: result[STATE]} if STATE in result else {})
        return await self._follow(method, again, asyncio.create_task(self._call(method, again)))

    async def _pass_on(self, request: Message) -> None:
        """Both sides are sessions: the request goes on as it is, and so does its answer."""
        method, here, there = request["method"], self.revision, self.up.revision
        given = convert(request.get("params"), method, PayloadKind.PARAMS, from_=there, to=here)
        answer = (await self.ask(method, given)).message
        if "error" in answer:
            reply = {"error": answer["error"]}
        else:
            reply = {"result": convert(answer["result"], method, PayloadKind.RESULT, from_=here, to=there)}
        self.up.send({"jsonrpc": "2.0", "id": request["id"], **reply})

    def _park(self, call: asyncio.Task[Message], request: Message) -> Message:
        """A session's server asks, a result has to: the call waits for the client to come back with the answer."""
        state, method = f"parked {request['id']}", request["method"]
        self._parked[state] = call, request
        params = convert(request.get("params"), method, PayloadKind.PARAMS, from_=self.up.revision, to=LATEST)
        asked = {"method": method} | ({} if params is None else {"params": params})
        return {"resultType": "input_required", "inputRequests": {"question": asked}, STATE: state}

    async def _resume(self, state: str, params: Message) -> Message | Error:
        call, request = self._parked.pop(state)
        answer = params[ANSWERS]["question"]
        found = convert(answer, request["method"], PayloadKind.RESULT, from_=LATEST, to=self.up.revision)
        self.up.send({"jsonrpc": "2.0", "id": request["id"], "result": found})
        return await self._follow("tools/call", params, call)
