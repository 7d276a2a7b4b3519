"""What the server asks the user: answered by hand, or by an answer that was saved."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from pydantic import ValidationError
from typing_extensions import override

from mcprev.client.request_handler import ClientContext, ClientHandler
from mcprev.core.input_requests import response_error
from mcprev.dev.channels import Channels, to_json
from mcprev.errors import Json, RpcError
from mcprev.protocol.mrtr import without_empty_fields
from mcprev.wire.json_values import is_json_object
from mcprev_types import Model, with_json_paths
from mcprev_types.latest import models

if TYPE_CHECKING:
    from mcprev.dev.event_log import EventLog

KEPT: Final = 500
"""How many questions are kept; the oldest that are answered are dropped."""
BYTES: Final = 32 * 1024 * 1024
"""The maximum length of the params of all questions that are kept, in characters of JSON."""
OPEN: Final = 100
"""How many questions may wait at once; further ones are answered with an error."""
ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"
CURRENT: Final[ContextVar[str | None]] = ContextVar("mcprev_dev_call", default=None)
"""The call of the page that the current task makes."""
_TOO_MANY: Final = -32000
_ANSWERS: Final[dict[str, type[Model]]] = {
    ELICIT: models.ElicitResult, SAMPLE: models.CreateMessageResult, ROOTS: models.ListRootsResult,
}  # fmt: skip


@dataclass(slots=True)
class Question:
    """One question of the server."""

    id: str
    call: str | None
    method: str
    params: Json
    at: float
    state: str = "open"
    action: str | None = None
    saved: bool = False
    """Whether a saved answer was given."""
    size: int = 0
    """The length of the params, in characters of JSON."""
    answer: asyncio.Future[dict[str, Json]] | None = None
    """The answer to come; None for a question of a saved session."""

    def document(self) -> dict[str, Json]:
        """Return the question as the page shows it."""
        return {
            "question": self.id, "call": self.call, "method": self.method, "params": self.params,
            "at": self.at, "state": self.state, "action": self.action, "saved": self.saved,
        }  # fmt: skip


class AnswerError(ValueError):
    """An answer that cannot be given, because the protocol does not allow it."""


class Questions:
    """The questions of a session, and the saved answers."""

    def __init__(self, log: EventLog, channels: Channels) -> None:
        self._log, self._channels = log, channels
        self._questions: OrderedDict[str, Question] = OrderedDict()
        self._count = 0
        self.saved: dict[str, dict[str, Json]] = {}
        """The answers by kind, for the questions of the same kind that come later."""
        self.roots: list[Json] | None = None
        """The roots that `roots/list` is answered with; None asks the user."""

    def documents(self) -> list[Json]:
        """Return all questions that are kept."""
        return [question.document() for question in self._questions.values()]

    def restore(self, documents: Sequence[Mapping[str, Json]]) -> None:
        """Take over the questions of a saved session. Raises `KeyError` for what is none."""
        for found in documents[-KEPT:]:
            state = "cancelled" if found["state"] == "open" else found["state"]
            self._questions[found["question"]] = Question(
                found["question"],
                found["call"],
                found["method"],
                found["params"],
                found["at"],
                state,
                found["action"],
                found["saved"],
            )

    async def ask(self, method: str, params: Json, call: str | None) -> dict[str, Json]:
        """Return the answer to a question. Raises `RpcError` if the user answers with an error."""
        if sum(question.state == "open" for question in self._questions.values()) >= OPEN:
            raise RpcError(f"more than {OPEN} questions wait for an answer", code=_TOO_MANY)
        self._count += 1
        question = Question(f"q{self._count}", call, method, params, round(self._log.now(), 6))
        question.size = len(to_json(params))
        answer: asyncio.Future[dict[str, Json]] = asyncio.get_running_loop().create_future()
        question.answer = answer
        self._questions[question.id] = question
        self._forget()
        ready = self._ready_answer(method, params)
        if ready is not None:
            question.saved = True
            self._settle(question, ready)
        self._tell(question)
        try:
            return await answer
        except asyncio.CancelledError:
            question.state = "cancelled"
            self._tell(question)
            raise

    def answer(self, id_: str, given: Mapping[str, Json]) -> None:
        """Answer a question. Raises `KeyError` if there is none that is open, and `AnswerError` for a wrong answer."""
        question = self._questions[id_]
        if question.state != "open":
            raise KeyError(id_)
        answer = without_empty_fields(self._read(question.method, given))
        if "error" not in answer:
            _check(question.method, question.params, answer)
        if given.get("remember") is True and "error" not in answer:
            self.saved[_kind(question.method, question.params)] = answer
        self._settle(question, answer)
        self._tell(question)

    def _ready_answer(self, method: str, params: Json) -> dict[str, Json] | None:
        """Return the answer that needs no user: the roots, or a saved answer that fits the question."""
        if method == ROOTS and self.roots is not None:
            return {"roots": list(self.roots)}  # makes ListRootsResult
        saved = self.saved.get(_kind(method, params))
        if saved is None:
            return None
        try:
            _check(method, params, saved)
        except AnswerError:
            return None
        return saved

    def _read(self, method: str, given: Mapping[str, Json]) -> dict[str, Json]:
        """Return the answer in what the page sent. Raises `AnswerError`."""
        error, result = given.get("error"), given.get("result")
        for name, value in (("error", error), ("result", result)):
            if value is not None and not is_json_object(value):
                raise AnswerError(f"`{name}` is not an object")
        if is_json_object(error):
            if not isinstance(error.get("code"), int) or not isinstance(error.get("message"), str):
                raise AnswerError("`error` requires a `code`, a whole number, and a `message`")
            return {"error": error}
        if is_json_object(result):
            return dict(result)
        action = given.get("action")
        if method != ELICIT or action not in ("accept", "decline", "cancel"):
            raise AnswerError(
                "answer with `action` accept, decline or cancel, for elicitation; else with `result` or `error`"
            )
        content: Json = given.get("content")
        given_content = {} if content is None else {"content": content}
        return {"action": action, **given_content}  # makes ElicitResult

    def _settle(self, question: Question, answer: dict[str, Json]) -> None:
        assert question.answer is not None, "an open question waits for it"
        question.state = "answered"
        if "error" in answer:
            question.action = "error"
            error = answer["error"]
            question.answer.set_exception(
                RpcError(error["message"], code=error["code"], data=error.get("data"))
            )
            return
        question.action = str(answer.get("action", "result"))
        question.answer.set_result(answer)

    def _forget(self) -> None:
        while len(self._questions) > KEPT or self._size() > BYTES:
            old = next((q.id for q in self._questions.values() if q.state != "open"), None)
            if old is None:
                return
            del self._questions[old]

    def _size(self) -> int:
        return sum(question.size for question in self._questions.values())

    def _tell(self, question: Question) -> None:
        self._channels.state("question", question.id, question.document())


def _kind(method: str, params: Json) -> str:
    """Return what one saved answer is for: a method, and apart from its forms the URLs of elicitation, which a user has to see."""
    mode: Json = params.get("mode") if is_json_object(params) else None
    return method if mode in (None, "form") else f"{method} ({mode})"


def _check(method: str, params: Json, answer: dict[str, Json]) -> None:
    """Raise `AnswerError` for an answer that is not valid."""
    try:
        _ANSWERS[method].from_wire(answer)
    except ValidationError as error:
        raise AnswerError(with_json_paths(error, answer)) from None
    wrong = response_error(method, params, answer)
    if wrong is not None:
        raise AnswerError(wrong)


class PageHandler(ClientHandler):
    """Passes the questions of the server on to the page."""

    def __init__(
        self,
        questions: Questions,
        call_of: Callable[[ClientContext], str | None],
        asking: Callable[[str | None, bool], None],
    ) -> None:
        """`call_of` returns the call that a question belongs to, and `asking` is told when it waits for an answer."""
        self._questions, self._call_of, self._asking = questions, call_of, asking

    @override
    async def elicit(self, ctx: ClientContext, params: models.ElicitRequestParams) -> models.ElicitResult:
        """Let the user fill in a form, or open a URL."""
        answer = await self._ask(ELICIT, ctx, cast("Model", params).to_wire())
        return models.ElicitResult.from_wire(answer)

    @override
    async def create_message(
        self, ctx: ClientContext, params: models.CreateMessageRequestParams
    ) -> models.CreateMessageResult:
        """Let the user write what a model would."""
        return models.CreateMessageResult.from_wire(await self._ask(SAMPLE, ctx, params.to_wire()))

    @override
    async def list_roots(
        self, ctx: ClientContext, params: models.ListRootsRequestParams | None
    ) -> models.ListRootsResult:
        """Return the roots, or let the user name them."""
        return models.ListRootsResult.from_wire(await self._ask(ROOTS, ctx, None))

    async def _ask(self, method: str, ctx: ClientContext, params: Json) -> dict[str, Json]:
        call = self._call_of(ctx)
        self._asking(call, True)  # noqa: FBT003 - a callback
        try:
            return await self._questions.ask(method, params, call)
        finally:
            self._asking(call, False)  # noqa: FBT003 - a callback
