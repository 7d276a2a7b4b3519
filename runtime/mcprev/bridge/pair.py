"""Converts payloads between the revision of a client and that of a server, in both directions (CONV-*, SEAM-10).

A pair of one revision changes nothing, but leaves out entries of lists that are not valid. Any other pair converts by the ladder's steps between the two, validates the
outcome, and refuses methods that one of the two does not have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeAlias, TypeVar, get_args

from mcprev.conversion import ConversionContext, PayloadKind, convert, converter
from mcprev.conversion.ladder import failure
from mcprev.conversion.rules import OBJECT, JsonObject, NotRepresentable, new_id, without
from mcprev.core.lists import LISTS
from mcprev.core.valid_entries import InvalidEntries, valid_page
from mcprev.errors import INTERNAL_ERROR, ConversionError, Json, RemoteProtocolError
from mcprev.protocol import mrtr, tasks
from mcprev.revisions import Revision

logger: Final = logging.getLogger("mcprev.bridge")
V = TypeVar("V")
"""A payload: its conversion is an object if it is one."""


class Rule(StrEnum):
    """The rules of the bridge for what a pair of revisions cannot express, beside the reasons of the ladder."""

    METHOD = "BR-1"
    """A method or notification that one of the two revisions does not have is refused or dropped."""
    URL_ERROR = "BR-2"
    """An error that asks for a visit of a URL becomes a result that asks for it."""
    UNASKED = "BR-3"
    """A question of a server outside of a client's request cannot be asked where results ask."""
    STATE = "BR-4"
    """What a session keeps between the calls of a stateless client lasts as long as the client's upstream."""
    SENDERLESS = "BR-7"
    """A notification of a vendor from a client without a session is dropped: it says neither its revision nor its sender."""
    STRUCTURED = "CONV-4"
    """Structured content that the client's revision does not have, or only as an object, becomes text."""


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """A conversion that changed a payload, for a report."""

    source: str
    target: str
    method: str
    kind: str
    before: Json
    after: Json
    reasons: tuple[str, ...]
    """The reasons of the replacements that the ladder made."""


Report: TypeAlias = Callable[[ConversionReport], None]


@dataclass(frozen=True, slots=True)
class Policy:
    """How conversions are made."""

    strict: bool = False
    """Whether what would be replaced is refused."""
    report: Report | None = None


LENIENT: Final = Policy()
_STEERING: Final = frozenset({tasks.TASK, mrtr.RESPONSES, mrtr.STATE})
"""The members of params that say how a request is executed."""


class Pair:
    """Converts between the revisions of one client and one server."""

    def __init__(
        self, client: Revision, server: Revision, policy: Policy = LENIENT, *, shows_tasks: bool = True
    ) -> None:
        self.shows_tasks: bool = shows_tasks
        """Whether clients see tasks of the bridge, where the two have other tasks."""
        self.client = client
        self.server = server
        self.same: bool = client.name == server.name
        """Whether payloads pass unchanged, but for entries of lists that are not valid."""
        self._policy = policy
        self._invalid = InvalidEntries(logger)

    def has(self, method: str) -> bool:
        """Return whether both revisions have a method, or nothing is converted."""
        return self.same or (method in self.client.methods and method in self.server.methods)

    def to_server(
        self, value: V, method: str, kind: PayloadKind, meta: Mapping[str, Json] | None = None
    ) -> V:
        """Return a payload of the client at the server's revision; `meta` is that of stateless requests.

        Raises `ConversionError`.
        """
        if self.same:
            return value
        given: Json = value
        if isinstance(given, OBJECT) and kind is PayloadKind.RESULT:
            given = mrtr.without_empty_fields(given)
        elif isinstance(given, OBJECT) and isinstance(given.get(mrtr.RESPONSES), OBJECT):
            answers = {
                key: mrtr.without_empty_fields(answer) if isinstance(answer, OBJECT) else answer
                for key, answer in given[mrtr.RESPONSES].items()
            }
            given = {**given, mrtr.RESPONSES: answers}
        found: V = self._convert(given, method, kind, self.client, self.server, meta)
        return found

    def to_client(self, value: V, method: str, kind: PayloadKind) -> V:
        """Return a payload of the server at the client's revision. Raises `ConversionError`."""
        found = value
        if kind is PayloadKind.RESULT and method in LISTS and not self._policy.strict:
            found = self._valid_to_client(value, method) if self.same else self._list_to_client(value, method)
        elif not self.same:
            found = self._convert(value, method, kind, self.server, self.client, None)
        return found

    def _valid_to_client(self, value: Json, method: str) -> Json:
        """Return a page of a list without the entries that are not valid, which are reported; what cannot be judged stays."""

        def judge(page: JsonObject) -> JsonObject:
            convert(page, method, PayloadKind.RESULT, from_=self.server, to=self.client)
            return page

        if not isinstance(value, OBJECT):
            return value
        try:
            found, invalid = valid_page(method, value, judge)
        except (ConversionError, RemoteProtocolError):
            return value
        self._invalid.add(invalid)
        return found

    def _list_to_client(self, value: Json, method: str) -> Json:
        """Return a page of a list for the client; entries that are not valid are left out and reported."""

        def judge(page: JsonObject) -> JsonObject:
            found: JsonObject = self._convert(
                page, method, PayloadKind.RESULT, self.server, self.client, None
            )
            return found

        found, invalid = valid_page(method, value, judge)
        self._invalid.add(invalid)
        return found

    def error(self, error: Mapping[str, Json], method: str, *, to_client: bool = True) -> JsonObject:
        """Return an error object of one side for the other one, with a code that the other's revision has."""
        found = dict(error)
        if self.same:
            return found
        target = self.client if to_client else self.server
        if self.has(method):
            convert = self.to_client if to_client else self.to_server
            found = convert(found, method, PayloadKind.ERROR)
        if found.get("code") in target.barred_codes:
            found["code"] = INTERNAL_ERROR
        return found

    def _convert(
        self,
        value: Json,
        method: str,
        kind: PayloadKind,
        source: Revision,
        target: Revision,
        meta: Mapping[str, Json] | None,
    ) -> Json:
        policy, reasons = self._policy, list[str]()

        def downgrade(_value: JsonObject, reason: str, revision: str) -> JsonObject | None:
            reasons.append(reason)
            if policy.strict:
                raise NotRepresentable(f"{revision} has no {reason}, and nothing is replaced ({reason})")
            return None

        if kind is PayloadKind.PARAMS and isinstance(value, OBJECT) and not _STEERING.isdisjoint(value):
            value = without(value, *_unmeant(source, target, method))
        step = converter(method, kind, from_=source, to=target)
        hook = downgrade if policy.strict or policy.report is not None else None
        found: Json = step(value, ConversionContext(target.name, hook, meta or {}, new_id))
        if found is not value:
            if _lost_structure(value, found):
                reasons.append(Rule.STRUCTURED)
                if policy.strict:
                    wrong = NotRepresentable(
                        f"{target.name} cannot express it, and nothing is replaced ({Rule.STRUCTURED})",
                        "structuredContent",
                    )
                    raise failure(wrong, target.name)
            if policy.report is not None:
                policy.report(
                    ConversionReport(source.name, target.name, method, kind, value, found, tuple(reasons))
                )
        return found


@cache
def _unmeant(source: Revision, target: Revision, method: str) -> frozenset[str]:
    """Return the members of params that say nothing at one revision and say at the other how a request is executed."""
    return _STEERING & _members(target, method) - _members(source, method)


def _members(revision: Revision, method: str) -> frozenset[str]:
    spec = revision.methods.get(method)
    found: Any = getattr(revision.models, (spec and spec.params) or "", None)
    models: tuple[Any, ...] = get_args(found) or (() if found is None else (found,))
    return frozenset(each.alias or name for model in models for name, each in model.model_fields.items())


def _lost_structure(before: Json, after: Json) -> bool:
    return (
        isinstance(before, dict)
        and isinstance(after, dict)
        and "structuredContent" in before
        and "structuredContent" not in after
    )
