"""The flow of a method at one revision, as the steps of a sequence diagram; it follows from the schema alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mcprev_codegen.facts import Method, Revision, Side
from mcprev_codegen.support import Kind, Transport

_OPENING: Final = ("initialize", "notifications/initialized")
_STREAMS: Final = {"subscriptions/listen": "notifications/subscriptions/acknowledged"}
"""Requests that stay open and carry notifications, with the first one."""
_CALL: Final = "tools/call"
_PROGRESS: Final = "notifications/progress"
_INPUT: Final = "InputRequiredResult"
_TASK: Final = "CreateTaskResult"
_TASK_STEPS: Final = ("tasks/get", "tasks/result")


@dataclass(frozen=True, slots=True)
class FlowStep:
    """One message of a sequence, or what happens between two."""

    sender: Side | None
    """None for a note."""
    text: str
    kind: str
    """`request`, `result`, `notification`, `note`, or `part`: the heading of what may happen instead or next."""
    about: str = ""
    """A second line: the type of the message or what it carries."""
    method: str = ""
    """The method that the step links to."""
    faint: bool = False
    """Whether it only leads to the method."""

    @property
    def words(self) -> str:
        """The step as a sentence."""
        if self.sender is None:
            return self.text
        about = f" ({self.about})" if self.about else ""
        return f"{self.sender.capitalize()} to {self.sender.other}: {self.kind} {self.text}{about}"


def flow(revision: Revision, method: Method) -> tuple[FlowStep, ...]:
    """Return the steps of a method, with what leads to it."""
    steps = [*_opening(revision, method)]
    for sender in method.senders:
        if method.transport is Transport.EMBEDDED:
            steps += _embedded(revision, method)
        elif method.kind is Kind.NOTIFICATION:
            steps.append(_message(method, sender))
        else:
            steps += _request(revision, method, sender)
    return tuple(steps)


def _opening(revision: Revision, method: Method) -> list[FlowStep]:
    first, then = (revision.methods.get(name) for name in _OPENING)
    if first is None:
        return [FlowStep(None, "no handshake: version is in each request", "note")]
    if method.method in _OPENING:
        if method is first or then is None:
            return []
        return [_message(first, Side.CLIENT, faint=True), _result(first, Side.CLIENT, faint=True)]
    steps = [_message(first, Side.CLIENT, faint=True), _result(first, Side.CLIENT, faint=True)]
    return [*steps, _message(then, Side.CLIENT, faint=True)] if then else steps


def _message(method: Method, sender: Side, *, faint: bool = False, about: str = "") -> FlowStep:
    return FlowStep(
        sender, method.method, str(method.kind), about or method.params or "", method.method, faint
    )


def _result(
    method: Method, sender: Side, name: str = "", *, faint: bool = False, about: str = ""
) -> FlowStep:
    return FlowStep(sender.other, name or method.result or "result", "result", about, faint=faint)


def _request(revision: Revision, method: Method, sender: Side) -> list[FlowStep]:
    steps = [_message(method, sender)]
    if method.method in _STREAMS:
        return [*steps, *_stream(revision, method, sender)]
    progress = revision.methods.get(_PROGRESS)
    if method.method == _CALL and progress is not None:
        steps.append(_message(progress, sender.other, faint=True))
    steps.append(_result(method, sender))
    if _INPUT in method.alternate_results or (method.input_responses and _INPUT in revision.schema.types):
        asked = [m.method for m in revision.methods.values() if m.transport is Transport.EMBEDDED]
        steps.append(FlowStep(None, "or the server asks first", "part"))
        steps += _asking(method, sender, ", ".join(asked))
    if _TASK in method.alternate_results or (method.task_augmented and _TASK in revision.schema.types):
        steps.append(FlowStep(None, "or it becomes a task", "part"))
        steps += [
            _message(method, sender, about="with task"),
            _result(method, sender, _TASK, about="a task that goes on"),
        ]
        for name in _TASK_STEPS:
            if (step := revision.methods.get(name)) is not None and sender in step.senders:
                steps += [_message(step, sender), _result(step, sender)]
    return steps


def _asking(method: Method, sender: Side, asked: str) -> list[FlowStep]:
    return [
        _result(method, sender, _INPUT, about=f"inputRequests: {asked}" if asked else "inputRequests"),
        FlowStep(None, f"the {sender} finds the answer", "note"),
        _message(method, sender, about="again, with inputResponses"),
        _result(method, sender),
    ]


def _embedded(revision: Revision, method: Method) -> list[FlowStep]:
    """Return the steps of a request that a server sends inside the result of another one."""
    carriers = [m for m in revision.methods.values() if m.input_responses]
    carrier = next((m for m in carriers if m.method == _CALL), carriers[0] if carriers else None)
    if carrier is None:
        return [FlowStep(Side.SERVER, method.method, "request", "inside a result", method.method)]
    answer = f"inputResponses: {method.result}" if method.result else "inputResponses"
    return [
        _message(carrier, Side.CLIENT),
        FlowStep(Side.SERVER, _INPUT, "result", f"inputRequests: {method.method}", method.method),
        FlowStep(None, "the client finds the answer", "note"),
        _message(carrier, Side.CLIENT, about=answer),
        _result(carrier, Side.CLIENT),
    ]


def _stream(revision: Revision, method: Method, sender: Side) -> list[FlowStep]:
    steps: list[FlowStep] = []
    if (first := revision.methods.get(_STREAMS[method.method])) is not None:
        steps.append(_message(first, sender.other))
    steps.append(FlowStep(None, "for as long as the request is open", "part"))
    steps += [
        _message(m, sender.other)
        for m in revision.methods.values()
        if m.kind is Kind.NOTIFICATION
        and m.senders == (sender.other,)
        and m.method.endswith(("list_changed", "/updated"))
    ]
    return [*steps, _result(method, sender)]
