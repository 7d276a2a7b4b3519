"""The handlers and callers of a revision's methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mcprev_codegen.emit.docstrings import Docs
from mcprev_codegen.facts import Method, Revision, Side
from mcprev_codegen.python import Code, class_name, code, identifier, joined
from mcprev_codegen.support import Transport

DISPATCH_CLASSES: Final = ("ClientCalls", "ClientHandler", "ServerCalls", "ServerHandler")


@dataclass(frozen=True, slots=True)
class Stub:
    """One method of a handler or caller."""

    spec: Method
    doc: Code
    params: Code
    """The annotation of its params."""
    result: Code
    """The annotation of its result."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A class with one stub for each method that a side serves, and the table of these stubs."""

    name: str
    doc: str
    table: str
    table_doc: str
    stubs: Sequence[Stub]


@dataclass(frozen=True, slots=True)
class Caller:
    """A class with one coroutine for each method that a side sends."""

    name: str
    doc: str
    stubs: Sequence[Stub]


@dataclass(frozen=True, slots=True)
class DispatchClasses:
    """The data of dispatch.py."""

    handlers: Sequence[Handler]
    callers: Sequence[Caller]


def dispatch_classes(revision: Revision, docs: Docs) -> DispatchClasses:
    """Return the handlers and callers of a revision."""
    stubs = [
        Stub(method, docs.method(method), _params(method), _result(method))
        for method in revision.methods.values()
    ]
    sent_by = {side: [stub for stub in stubs if side in stub.spec.senders] for side in Side}
    handlers = [
        Handler(
            side.other.type_name("Handler"),
            f"The methods that a {side.other} serves: one stub for each message that a {side} may send.",
            f"{side.other.upper()}_BINDINGS",
            f"The stub and types of every method that a {side.other} receives.",
            sent_by[side],
        )
        for side in Side
    ]
    callers = [
        Caller(
            "ClientCalls",
            "The methods that a client sends: one coroutine for each method that a server serves.",
            sent_by[Side.CLIENT],
        ),
        Caller(
            "ServerCalls",
            "The methods that a server sends as separate messages: one coroutine for each.",
            [stub for stub in sent_by[Side.SERVER] if stub.spec.transport is Transport.JSONRPC],
        ),
    ]
    return DispatchClasses(handlers, callers)


def _params(method: Method) -> Code:
    if method.params is None:
        return code("None")
    return code("{} | None" if method.params_optional else "{}", _model(method.params))


def _result(method: Method) -> Code:
    return joined(" | ", map(_model, method.results)) if method.results else code("None")


def _model(name: str) -> Code:
    return code("models.{}", identifier(class_name(name)))
