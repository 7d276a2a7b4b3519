"""What a server may answer instead of a valid result: each member of each result of a revision gone, or something else.

The valid results come from the corpus, which is made from the schemas alone, and from the rules of tasks and of results that
ask, which have no schema or are in the place of another result.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, cast

from typing_extensions import override

from api.wire import Error, HandServer, Json, Message
from fuzz.fuzzing import sampled
from helpers.corpus import Corpus
from helpers.support import load
from mcprev.protocol import tasks
from mcprev.revisions import Revision, TaskSupport
from mcprev_types import Direction, Kind

GONE: Final = object()
"""In the place of a member: it is left out."""


def _nested(depth: int) -> Json:
    value: Json = {}
    for _ in range(depth):
        value = {"x": [value]}
    return value


PROBES: Final[tuple[Json, ...]] = (
    GONE, None, True, 0, -1, 1.5, 1e300, 10**400, "", "x", "x" * 100_000, "\ud800", [], [7], [None], [[]], [{}], ["x"],
    {}, {"x": 7}, {"x": {}}, {"x": None}, {"type": "x"}, {"type": "text"}, {"method": "x"}, {"type": []}, _nested(80),
)  # fmt: skip
"""What is put in the place of each member."""
TEXT: Final[Message] = {"type": "text", "text": "?"}
QUESTIONS: Final[Message] = {
    "sample": {
        "method": "sampling/createMessage",
        "params": {
            "messages": [{"role": "user", "content": TEXT}], "maxTokens": 9,
            "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
        },
    },
    "roots": {"method": "roots/list"},
    "form": {
        "method": "elicitation/create",
        "params": {
            "mode": "form", "message": "?",
            "requestedSchema": {
                "type": "object", "required": ["a"],
                "properties": {
                    "a": {"type": "string", "default": "x", "minLength": 1},
                    "b": {"type": "array", "items": {"type": "string", "enum": ["x"]}},
                    "c": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]},
                },
            },
        },
    },
    "url": {"method": "elicitation/create", "params": {"mode": "url", "message": "?", "url": "https://a.example/", "elicitationId": "e"}},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Odd:
    """One answer: to which method, whether it is an error, what it says, and what was done to it."""

    method: str
    kind: str
    value: Json
    note: str


# -- valid answers ---------------------------------------------------------------------------------------------


@cache
def bases(row: Revision) -> tuple[tuple[str, str, Json], ...]:
    """The valid answers of a server of a revision: method, `result` or `error`, and the fullest value."""
    corpus = Corpus(load(row.name))
    found: list[tuple[str, str, Json]] = []
    for spec in row.methods.values():
        if Direction.CLIENT_TO_SERVER in spec.directions and spec.kind is Kind.REQUEST and spec.result:
            found += [
                (spec.method, "result", value) for value in list(corpus.samples(str(spec.result)))[1::2]
            ]
    if row.input_in_results:
        asks = {"resultType": "input_required", "inputRequests": QUESTIONS, "requestState": "s"}
        found += [(method, "result", asks) for method in ("tools/call", "prompts/get", "resources/read")]
    found += [("tools/call", "error", error) for error in _errors()]
    return tuple(found + [(method, "result", value) for method, value in _task_results(row)])


def _errors() -> Iterator[Json]:
    yield {"code": -32603, "message": "no", "data": {"x": [1]}}
    yield {"code": -32602, "message": "no", "data": {"uri": "a:b"}}
    yield {"code": -32004, "message": "no", "data": {"supported": ["x"], "requested": "y"}}
    yield {"code": -32021, "message": "no", "data": {"requiredCapabilities": {"roots": {}}}}
    yield {
        "code": -32042,
        "message": "no",
        "data": {"elicitations": [{"mode": "url", "url": "a:b", "message": "?", "elicitationId": "e"}]},
    }


def task_state(row: Revision, status: str, **more: Json) -> Message:
    """What a server of a revision says of a task."""
    unit = "" if row.tasks is TaskSupport.CORE else "Ms"
    time = "2026-01-01T00:00:00Z"
    return {
        "taskId": "t", "status": status, "statusMessage": "s", "createdAt": time, "lastUpdatedAt": time,
        f"ttl{unit}": 1000, f"pollInterval{unit}": 20, **more,
    }  # fmt: skip


def _task_results(row: Revision) -> Iterator[tuple[str, Json]]:
    if row.tasks is TaskSupport.CORE:
        yield "tools/call", {"task": task_state(row, "working")}
        yield tasks.RESULT, {"content": [TEXT], "structuredContent": {"x": 1}, "isError": False}
    elif row.tasks is TaskSupport.EXTENSION:
        yield "tools/call", {"resultType": "task", **task_state(row, "working")}
        states: tuple[Message, ...] = (
            {"status": "completed", "result": {"content": [TEXT], "structuredContent": {"x": 1}}},
            {"status": "failed", "error": {"code": -1, "message": "no", "data": {"x": 1}}},
            {"status": "input_required", "inputRequests": QUESTIONS},
            {"status": "cancelled"},
        )
        for more in states:
            yield tasks.GET, {"resultType": "complete", **task_state(row, **more)}


# -- odd ones ---------------------------------------------------------------------------------------------------


def places(value: Json, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each member of a value, the value itself first."""
    yield at
    inner: Iterable[tuple[Any, Json]] = ()
    if isinstance(value, dict):
        inner = cast("Message", value).items()
    elif isinstance(value, list):
        inner = enumerate(cast("list[object]", value))
    for key, item in inner:
        yield from places(item, (*at, key))


def changed(value: Json, path: tuple[Any, ...], probe: Json) -> Json:
    """A copy with something else at a path."""
    if not path:
        return {} if probe is GONE else copy.deepcopy(probe)
    made = copy.deepcopy(value)
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    if probe is GONE:
        del holder[path[-1]]
    else:
        holder[path[-1]] = copy.deepcopy(probe)
    return made


@cache
def every(row: Revision) -> tuple[tuple[str, str, Json, tuple[Any, ...], Json], ...]:
    """Each place of each answer, with each probe: not made yet."""
    return tuple(
        (method, kind, value, path, probe)
        for method, kind, value in bases(row)
        for path in places(value)
        for probe in PROBES
    )


LONG: Final = 30
"""How many times as many cases as in `make test` are drawn where there is time for all."""


def odd_results(row: Revision, count: int, seed: int, methods: Sequence[str] | None = None) -> Iterator[Odd]:
    """Odd answers of a revision: `count` of those to some methods in `make test`, and each in a `make fuzz` of a minute."""
    found = [each for each in every(row) if methods is None or each[0] in methods]
    if sampled(1) < LONG:
        chance = random.Random(seed)  # noqa: S311 - the same each time
        found = chance.sample(found, min(sampled(count), len(found)))
    for method, kind, value, path, probe in found:
        shown = "gone" if probe is GONE else repr(probe)[:60]
        yield Odd(
            method, kind, changed(value, path, probe), f"{row.name} {method} {kind} {list(path)} = {shown}"
        )


class OddServer(HandServer):
    """A server whose answer to one method is odd; all others are valid."""

    def __init__(self, row: Revision) -> None:
        super().__init__(row)
        self.odd: Odd | None = None
        self.replies = {
            "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}]},
            "resources/list": {"resources": []}, "resources/templates/list": {"resourceTemplates": []},
            "prompts/list": {"prompts": []}, "prompts/get": {"messages": []}, "resources/read": {"contents": []},
            "completion/complete": {"completion": {"values": []}}, "tools/call": self._called, tasks.CANCEL: {}, tasks.UPDATE: {},
            tasks.GET: task_state(row, "completed", **({} if row.tasks is TaskSupport.CORE else {"result": {"content": []}})),
            tasks.RESULT: {"content": []},
        }  # fmt: skip
        if row.tasks is TaskSupport.CORE:
            self.capabilities["tasks"] = {"requests": {"tools": {"call": {}}}, "list": {}, "cancel": {}}

    def _called(self, request: Message) -> Message:
        """Begin a task, if one is odd; else the result."""
        follows = self.odd is not None and self.odd.method in (tasks.GET, tasks.RESULT)
        if follows and self.revision.tasks is TaskSupport.CORE:
            return {"task": task_state(self.revision, "working")}
        if follows:
            return {"resultType": "task", **task_state(self.revision, "working")}
        return (
            {"content": [], "structuredContent": {}}
            if "inputResponses" not in request["params"]
            else {"content": []}
        )

    @override
    def reply(self, request: Message) -> Message | Error | None:
        odd = self.odd
        if odd is None or request["method"] != odd.method:
            return super().reply(request)
        self.send({"jsonrpc": "2.0", "id": request["id"], odd.kind: odd.value})
        return None
