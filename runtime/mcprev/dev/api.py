"""What the page asks for: one method for each request below `/api/`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Final, TypeAlias

from mcprev.dev.argument_check import argument_problems
from mcprev.dev.calls import SHOWN, PageCall, TooManyCalls
from mcprev.dev.channels import to_json
from mcprev.dev.comparing import at_revision, compare, type_of
from mcprev.dev.copying import FORMS, CannotCopy, copied_call, copied_event
from mcprev.dev.inspector import FAILURES, READ_ONLY, NotConnected
from mcprev.dev.lists import KINDS
from mcprev.dev.questions import AnswerError
from mcprev.dev.repeating import (
    AT_ONCE,
    MAX_AT_ONCE,
    MAX_CALLS,
    MAX_RATE,
    MAX_SECONDS,
    RepeatPlan,
    RepetitionRuns,
)
from mcprev.dev.saving import saved
from mcprev.dev.searching import Wanted, search
from mcprev.dev.verdicts import shown
from mcprev.errors import Json
from mcprev.revisions import ALL, revision_named
from mcprev.wire.bounds import check_values
from mcprev.wire.json_values import is_json_list, is_json_object

if TYPE_CHECKING:
    from mcprev.dev.events import SeenEvent
    from mcprev.dev.inspector import Inspector

MOST: Final = 5000
"""How many summaries one response has."""
NAME: Final = 10_000
"""The maximum length of a name or URI that the page sends, in characters."""
_READING: Final = frozenset({"copy", "check"})
"""The requests with a body that change nothing."""
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Refusal(Exception):
    """An error response."""

    def __init__(self, status: int, text: str, path: str | None = None) -> None:
        super().__init__(text)
        self.status: int = status
        self.text: str = text
        self.path: str | None = path

    def document(self) -> dict[str, Json]:
        """Return the body of the response."""
        return {"error": self.text} if self.path is None else {"error": self.text, "path": self.path}


@dataclass(frozen=True, slots=True)
class Answer:
    """A response."""

    body: bytes = b"{}"
    type: bytes = b"application/json"
    parts: Iterable[bytes] | None = None
    """The body in parts, instead."""
    file_name: bytes | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says."""

    names: tuple[str, ...]
    """The parts of the path that the route leaves open."""
    options: Mapping[str, str]
    body: bytes = b""
    members: dict[str, Json] = field(default_factory=dict[str, Json])
    """The body as a JSON object."""

    def text(self, name: str, *, most: int = NAME) -> str:
        """Return a string of the body. Raises `Refusal`."""
        found = self.members.get(name)
        if not isinstance(found, str) or len(found) > most:
            raise Refusal(400, f"`{name}` is not a string of at most {most} characters", f"$.{name}")
        return found

    def optional(self, name: str) -> str | None:
        """Return a string of the body, or None. Raises `Refusal`."""
        return None if self.members.get(name) is None else self.text(name)

    def object(self, name: str) -> dict[str, Json]:
        """Return an object of the body, empty if there is none. Raises `Refusal`."""
        found: object = self.members.get(name)
        if found is None:
            return {}
        if not is_json_object(found):
            raise Refusal(400, f"`{name}` is not an object", f"$.{name}")
        return found

    def flag(self, name: str) -> bool:
        """Return a boolean of the body, false if there is none. Raises `Refusal`."""
        found = self.members.get(name, False)
        if not isinstance(found, bool):
            raise Refusal(400, f"`{name}` must be true or false", f"$.{name}")
        return found

    def between(self, name: str, least: float, most: float) -> float | None:
        """Return a number of the body above `least`, or None. Raises `Refusal`."""
        found = self.members.get(name)
        if found is None:
            return None
        if not isinstance(found, int | float) or isinstance(found, bool) or not least < found <= most:
            raise Refusal(400, f"`{name}` must be a number above {least:g}, at most {most:g}", f"$.{name}")
        return found

    def number(self, name: str, default: int) -> int:
        """Return a whole number of the query."""
        found = self.options.get(name, "")
        return int(found) if found.isdecimal() and len(found) < 16 else default


Route: TypeAlias = Callable[[Asked], Awaitable[Answer]]


class PageApi:
    """The requests of the page."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector
        self._routes: list[tuple[str, re.Pattern[str], Route]] = [
            (verb, re.compile(path.replace("*", "([^/]{1,200})")), route)
            for verb, path, route in (
                ("GET", "state", self._state),
                ("GET", "wire", self._wire),
                ("GET", "search", self._search),
                ("GET", "event/*", self._event),
                ("GET", "event/*/revisions", self._revisions),
                ("GET", "event/*/revisions/*", self._at_revision),
                ("GET", "call/*", self._call),
                ("POST", "call", self._start_call),
                ("POST", "call/*/cancel", self._cancel_call),
                ("POST", "question/*", self._answer),
                ("POST", "repeat", self._repeat),
                ("POST", "repeat/stop", self._stop_repeating),
                ("GET", "save", self._save),
                ("POST", "copy", self._copy),
                ("GET", "answers", self._answers),
                ("DELETE", "answers", self._forget_answers),
                ("POST", "check", self._check),
                ("POST", "list", self._list),
                ("POST", "revision", self._revision),
                ("POST", "restart", self._restart),
                ("POST", "subscribe", self._subscribe),
                ("POST", "level", self._level),
                ("POST", "roots", self._roots),
                ("POST", "task/*", self._task),
            )
        ]

    async def serve(self, verb: str, path: str, options: Mapping[str, str], body: bytes) -> Answer:
        """Answer a request. Raises `Refusal`."""
        other = False
        for method, pattern, route in self._routes:
            found = pattern.fullmatch(path)
            if found is None:
                continue
            if method != verb:
                other = True
                continue
            if verb != "GET" and path not in _READING and self._inspector.read_only:
                raise Refusal(409, READ_ONLY)
            asked = Asked(found.groups(), options, body, _object(body) if verb == "POST" else {})
            try:
                return await route(asked)
            except NotConnected as error:
                raise Refusal(409, str(error)) from None
            except (AnswerError, RepetitionRuns, TooManyCalls) as error:
                raise Refusal(400, str(error)) from None
            except FAILURES as error:
                raise Refusal(502, str(error) or type(error).__name__) from None
        raise Refusal(405 if other else 404, "the API has no such path")

    # -- what is there -------------------------------------------------------------------------------------

    async def _state(self, asked: Asked) -> Answer:
        del asked
        return _json(self._inspector.state())

    async def _wire(self, asked: Asked) -> Answer:
        log = self._inspector.log
        count = min(asked.number("count", MOST), MOST)
        events = log.since(asked.number("from", log.first), count)
        return _json({"events": [event.summary() for event in events], "first": log.first, "next": log.next})

    async def _search(self, asked: Asked) -> Answer:
        options = asked.options
        wanted = Wanted(
            text=options.get("text", ""),
            method=options.get("method", ""),
            dir=options.get("dir", ""),
            problems=options.get("problems", "") not in ("", "0"),
        )
        return _json(await search(self._inspector.log, wanted))

    def _found(self, name: str) -> SeenEvent:
        event = self._inspector.log.get(int(name)) if name.isdecimal() and len(name) < 16 else None
        if event is None:
            raise Refusal(404, "no event has this number, or it is no longer kept")
        return event

    async def _event(self, asked: Asked) -> Answer:
        event = self._found(asked.names[0])
        body = self._inspector.log.body(event.n)
        found: dict[str, Json] = {
            "summary": event.summary(), "cut": body is not None and len(body) > SHOWN,
            "dropped": body is None and event.size > 0,
            "text": None if body is None else body[:SHOWN].decode(errors="backslashreplace"),
            "problems": await self._problems(event),
            "type": None if event.revision is None else type_of(event, revision_named(event.revision)),
            "links": {"request": event.answers, "response": event.answered},
        }  # fmt: skip
        exchange = event.exchange
        if exchange is not None:
            found["exchange"] = exchange.summary() | {
                "url": exchange.url, "reason": exchange.reason,
                "request_headers": [list(pair) for pair in exchange.sent],
                "response_headers": [list(pair) for pair in exchange.received],
            }  # fmt: skip
        return _json(found)

    async def _save(self, asked: Asked) -> Answer:
        raw = asked.options.get("raw") == "1"
        name = f"mcprev-{self._inspector.id}.jsonl".encode()
        return Answer(type=b"application/jsonl", parts=saved(self._inspector, raw=raw), file_name=name)

    async def _copy(self, asked: Asked) -> Answer:
        kind = asked.text("as", most=20)
        if kind not in FORMS:
            raise Refusal(400, f"`as` must be one of {', '.join(FORMS)}", "$.as")
        call, number = asked.optional("call"), asked.members.get("event")
        if (call is None) == (number is None):
            raise Refusal(400, "pass a `call`, or the number of an `event`")
        try:
            if call is not None:
                text = await asyncio.to_thread(copied_call, self._inspector, self._found_call(call), kind)
            else:
                text = await asyncio.to_thread(copied_event, self._inspector, self._found(str(number)), kind)
        except CannotCopy as error:
            raise Refusal(400, str(error)) from None
        return _json({"text": text})

    async def _problems(self, event: SeenEvent) -> list[Json]:
        if event.kind not in ("message", "invalid"):
            return []
        return shown(await self._inspector.verdicts.of(event))

    async def _revisions(self, asked: Asked) -> Answer:
        event = self._found(asked.names[0])
        log = self._inspector.log
        found = await asyncio.to_thread(compare, log, event, log.body(event.n))
        return _json([one.summary() for one in found])

    async def _at_revision(self, asked: Asked) -> Answer:
        event, name = self._found(asked.names[0]), _revision(asked.names[1])
        assert name is not None
        log = self._inspector.log
        row = revision_named(name)
        found = await asyncio.to_thread(at_revision, log, event, log.body(event.n), row)
        if found is None:
            raise Refusal(
                404, "the event is not a message of a known revision, or its bytes are no longer kept"
            )
        return _json(found.document())

    # -- calls ---------------------------------------------------------------------------------------------

    def _found_call(self, name: str) -> PageCall:
        call = self._inspector.calls.get(name)
        if call is None:
            raise Refusal(404, "no call has this id, or it is no longer kept")
        return call

    async def _call(self, asked: Asked) -> Answer:
        return _json(self._inspector.calls.document(self._found_call(asked.names[0])))

    async def _start_call(self, asked: Asked) -> Answer:
        revision = _revision(asked.optional("revision"))
        call = self._inspector.calls.start(
            asked.text("method", most=200),
            asked.object("params"),
            revision=revision,
            as_task=asked.flag("task"),
            meta=asked.object("meta"),
            again_of=asked.optional("again_of"),
        )
        return _json({"call": call.id})

    async def _cancel_call(self, asked: Asked) -> Answer:
        self._inspector.calls.cancel(self._found_call(asked.names[0]))
        return Answer()

    async def _repeat(self, asked: Asked) -> Answer:
        calls, seconds = asked.between("calls", 0, MAX_CALLS), asked.between("seconds", 0, MAX_SECONDS)
        if calls is None and seconds is None:
            raise Refusal(400, "say how often the tool is called, or for how many seconds", "$.calls")
        at_once, rate = asked.between("at_once", 0, MAX_AT_ONCE), asked.between("rate", 0, MAX_RATE)
        plan = RepeatPlan(
            MAX_CALLS if calls is None else ceil(calls),
            seconds,
            ceil(at_once or (1 if rate is None else AT_ONCE)),
            rate,
            asked.between("warm_up", 0, MAX_SECONDS),
        )
        self._inspector.repetitions.start(asked.text("tool"), asked.object("arguments"), plan)
        return Answer()

    async def _stop_repeating(self, asked: Asked) -> Answer:
        del asked
        await self._inspector.repetitions.stop()
        return Answer()

    async def _check(self, asked: Asked) -> Answer:
        name = asked.text("tool")
        tool = self._inspector.lists.find("tools", "name", name)
        if tool is None:
            raise Refusal(404, "no tool in the list of tools has this name; load the list first", "$.tool")
        arguments = asked.object("arguments")
        problems = await asyncio.to_thread(argument_problems, tool.get("inputSchema"), arguments)
        return _json({"problems": [{"path": path, "text": text} for path, text in problems]})

    # -- questions -----------------------------------------------------------------------------------------

    async def _answer(self, asked: Asked) -> Answer:
        try:
            self._inspector.questions.answer(asked.names[0], asked.members)
        except KeyError:
            raise Refusal(404, "no open question has this id") from None
        return Answer()

    async def _answers(self, asked: Asked) -> Answer:
        del asked
        return _json(dict(self._inspector.questions.saved))

    async def _forget_answers(self, asked: Asked) -> Answer:
        method = asked.options.get("method")
        saved = self._inspector.questions.saved
        if method is None:
            saved.clear()
        else:
            saved.pop(method, None)
        return Answer()

    async def _roots(self, asked: Asked) -> Answer:
        roots: object = asked.members.get("roots")
        if roots is not None:
            if not is_json_list(roots):
                raise Refusal(400, "`roots` must be a list or null", "$.roots")
            for number, root in enumerate(roots):
                uri = root.get("uri") if is_json_object(root) else None
                if not isinstance(uri, str) or not uri.lower().startswith("file://"):
                    raise Refusal(400, "the `uri` of a root must begin with file://", f"$.roots[{number}]")
        self._inspector.questions.roots = roots
        self._inspector.roots_changed()
        return Answer()

    # -- the server ----------------------------------------------------------------------------------------

    async def _list(self, asked: Asked) -> Answer:
        kind = asked.text("kind", most=20)
        if kind not in KINDS:
            raise Refusal(400, f"`kind` must be one of {', '.join(KINDS)}", "$.kind")
        self._inspector.lists.load(self._inspector.client, kind)
        return Answer()

    async def _revision(self, asked: Asked) -> Answer:
        self._inspector.switch(_revision(asked.optional("revision")))
        return Answer()

    async def _restart(self, asked: Asked) -> Answer:
        del asked
        self._inspector.restart()
        return Answer()

    async def _subscribe(self, asked: Asked) -> Answer:
        await self._inspector.subscribe(asked.text("uri"), on=asked.flag("on"))
        return _json({"subscriptions": self._inspector.subscribed()})

    async def _level(self, asked: Asked) -> Answer:
        level = asked.text("level", most=20)
        if level not in LEVELS:
            raise Refusal(400, f"`level` must be one of {', '.join(LEVELS)}", "$.level")
        await self._inspector.set_level(level)
        return Answer()

    async def _task(self, asked: Asked) -> Answer:
        what = asked.text("do", most=20)
        if what not in ("get", "cancel", "result"):
            raise Refusal(400, "`do` must be get, cancel or result", "$.do")
        task = await self._inspector.client.task(asked.names[0])
        if what == "cancel":
            await task.cancel()
        return _json({"task": task.id, "status": str(task.status)})


def _json(value: Json) -> Answer:
    return Answer(to_json(value).encode())


def _revision(name: str | None) -> str | None:
    names = [revision.name for revision in ALL]
    if name is not None and name not in names:
        raise Refusal(400, f"`revision` must be one of {', '.join(names)}", "$.revision")
    return name


def _object(body: bytes) -> dict[str, Json]:
    """Return the JSON object of a body; an empty body is an empty object. Raises `Refusal`."""
    if not body.strip():
        return {}
    try:
        check_values(body)
        found: object = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None
    if not is_json_object(found):
        raise Refusal(400, "the body is not a JSON object")
    return found
