"""The handlers and callers of a revision's methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mcprev_codegen.emit.docstrings import Docs
from mcprev_codegen.facts import Method, Revision, Side
from mcprev_codegen.python import Code, PythonNames, code, identifier, joined

DISPATCH_CLASSES: Final = ("ClientCalls", "ClientHandler", "ServerCalls", "ServerHandler")


@dataclass(frozen=True, slots=True)
class Stub:
    """One method of a handler or caller."""

    spec: Method
    doc: str
    params: Code
    """The annotation of its params."""
    needed: bool
    """Whether callers have to give params; what the runtime states they need not."""
    result: Code
    """The annotation of its result."""


@dataclass(frozen=True, slots=True)
class DispatchClasses:
    """The data of dispatch.py."""

    to_server: Sequence[Stub]
    """The methods that a server serves."""
    to_client: Sequence[Stub]


def dispatch_classes(revision: Revision, docs: Docs) -> DispatchClasses:
    """Return the methods of a revision by direction."""
    stubs = [
        Stub(
            method,
            docs.method(method),
            _params(method, revision.names),
            revision.needs_params(method),
            _result(method, revision.names),
        )
        for method in revision.methods.values()
    ]
    return DispatchClasses(
        [stub for stub in stubs if Side.CLIENT in stub.spec.senders],
        [stub for stub in stubs if Side.SERVER in stub.spec.senders],
    )


def _params(method: Method, names: PythonNames) -> Code:
    if method.params is None:
        return code("None")
    return code("{} | None" if method.params_optional else "{}", _model(method.params, names))


def _result(method: Method, names: PythonNames) -> Code:
    models = [_model(result, names) for result in method.results]
    return joined(" | ", models) if models else code("None")


def _model(name: str, names: PythonNames) -> Code:
    return code("models.{}", identifier(names.class_name(name)))
