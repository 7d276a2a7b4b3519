"""The flow of a method as it was recorded: sessions of mcprev with itself, in which everything is done once at each revision.

`sessions.json` has who sent what, in order, in each part of a session. `make sequences` records it anew, and a test holds it
against what is sent today.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

from mcprev_codegen.facts import Method, Revision, Side
from mcprev_codegen.support import Kind
from mcprev_explore.flows import FlowStep, flow

Message = dict[str, Any]
_OPENING: Final = "opening"
_LISTS: Final = "lists"
_CALL: Final = "tools/call"
_ASKING: Final = ("asking", "sampling")
_TASK: Final = "task"


@dataclass(frozen=True, slots=True)
class Sent:
    """One message of a session."""

    sender: Side
    message: Message
    method: str
    """Its method, or that of the request that it answers."""
    about: tuple[str, ...]
    """The methods of all messages that it is one of, or carries."""

    @property
    def answers(self) -> bool:
        """Return whether it is a response."""
        return "method" not in self.message


@cache
def sessions() -> Mapping[str, Mapping[str, tuple[Sent, ...]]]:
    """Return the parts of each session, by revision."""
    text = files("mcprev_explore").joinpath("sessions.json").read_text(encoding="utf-8")
    return {name: _parts(parts) for name, parts in json.loads(text).items()}


def recorded_flow(revision: Revision, method: Method) -> tuple[FlowStep, ...] | None:
    """Return the steps of a method as they were recorded, with what led to them; None if it was not.

    What else may happen, and what the other side may send, follows as a part of its own.
    """
    parts = sessions().get(revision.name) if revision.pin is not None else None
    name = method.method
    found = next((k for k, part in (parts or {}).items() if any(name in sent.about for sent in part)), None)
    if parts is None or found is None:
        return None
    steps: list[FlowStep] = []
    if not any(one.method == "initialize" for one in parts[_OPENING]):
        steps.append(FlowStep(None, "no handshake: version is in each request", "note"))
    if found != _OPENING:
        steps += [replace(step, faint=True) for step in _steps(revision, parts[_OPENING], "")]
    steps += _steps(revision, _own(parts[found], name) if found == _LISTS else parts[found], name)
    if name == _CALL:
        asking = next((parts[each] for each in _ASKING if each in parts), ())
        for words, part in (
            ("or the server asks first", asking),
            ("or it becomes a task", parts.get(_TASK, ())),
        ):
            if part:
                steps += [FlowStep(None, words, "part"), *_steps(revision, part, name)]
    senders = {sent.sender for sent in parts[found] if name in sent.about and not sent.answers}
    for side in method.senders:
        if len(method.senders) > 1 and side not in senders:
            steps += [FlowStep(None, f"or the {side} sends it", "part"), *_of(flow(revision, method), side)]
    return tuple(steps)


def _of(steps: Sequence[FlowStep], side: Side) -> list[FlowStep]:
    """Return what one side sends by itself, and what the other answers."""
    return [
        step
        for step in steps
        if not step.faint and step.sender is (side.other if step.kind == "result" else side)
    ]


def _parts(parts: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, tuple[Sent, ...]]:
    """Return the parts of a session, each message with the method that it is about."""
    asked: dict[tuple[str, Any], str] = {}
    found: dict[str, tuple[Sent, ...]] = {}
    for part, messages in parts.items():
        sent: list[Sent] = []
        for one in messages:
            sender, message = Side(one["from"]), one["message"]
            if "method" in message:
                method: str = message["method"]
                if "id" in message:
                    asked[str(sender), message["id"]] = method
            else:
                method = asked[str(sender.other), message["id"]]
            sent.append(Sent(sender, message, method, (method, *_inputs(message))))
        found[part] = tuple(sent)
    return found


def _inputs(message: Message) -> tuple[str, ...]:
    """Return the methods of the requests inside of a result."""
    asked = message.get("result", {}).get("inputRequests", {})
    return tuple(dict.fromkeys(each["method"] for each in asked.values()))


def _own(part: Sequence[Sent], name: str) -> list[Sent]:
    return [sent for sent in part if name in sent.about]


def _steps(revision: Revision, part: Sequence[Sent], name: str) -> list[FlowStep]:
    """Return the steps of messages; those that are not about a method are faint."""
    found: list[FlowStep] = []
    for sent in part:
        faint = name not in sent.about
        spec = revision.methods.get(sent.method)
        params: Message = sent.message.get("params") or {}
        if not sent.answers:
            about = "with task" if "task" in params else (spec.params if spec else None) or ""
            if "inputResponses" in params:
                found.append(FlowStep(None, "the client finds the answer", "note"))
                about = "again, with inputResponses"
            kind = str(Kind.REQUEST) if "id" in sent.message else str(Kind.NOTIFICATION)
            found.append(FlowStep(sent.sender, sent.method, kind, about, sent.method, faint))
            continue
        inputs = _inputs(sent.message)
        if inputs:
            embedded = name if name in inputs else ""
            found.append(
                FlowStep(
                    sent.sender,
                    "InputRequiredResult",
                    "result",
                    f"inputRequests: {', '.join(inputs)}",
                    embedded,
                    faint,
                )
            )
            continue
        task = "task" in sent.message.get("result", {})
        text = "CreateTaskResult" if task else (spec.result if spec else None) or "result"
        about = "a task that goes on" if task else ""
        found.append(FlowStep(sent.sender, text, "result", about, "", faint))
    return found
