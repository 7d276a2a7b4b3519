"""Renders a report as JSON, in the versioned format that `report.schema.json` describes."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final

from mcprev_codegen.diff.changes import Case, Change, Place, Report, RuleTable
from mcprev_codegen.diff.inputs import checkout_file
from mcprev_codegen.diff.report import History

REPORT_FORMAT: Final = 1
_CHANGE: Final = (
    "id", "case", "fingerprint", "path", "kind", "action", "level", "effect", "headline", "senders", "methods", "affects",
)  # fmt: skip
"""The members of a change that are written as they are."""


def report_json(report: Report) -> str:
    """Return the report as JSON."""
    return _dumped(
        old=_stated(report.old, "name", "source"),
        new=_stated(report.new, "name", "source"),
        summary={
            "verdicts": report.counts(),
            "old_client_new_server": report.pairing(client_is_old=True),
            "new_client_old_server": report.pairing(client_is_old=False),
            "requests": asdict(report.requests),
            "notifications": asdict(report.notifications),
            "types": asdict(report.types),
            "renamed": [{"old": old, "new": new} for old, new in report.renamed],
            "hidden": report.hidden,
            "notes": report.notes,
        },
        changes=[_change(change) for change in report.changes],
        ignored=[{"reason": i.reason, "change": _change(i.change)} for i in report.ignored],
    )


def history_json(history: History) -> str:
    """Return a history as JSON."""
    revisions = [
        {**_stated(entry, "revision", "state", "name"), "changes": [_change(one) for one in entry.changes]}
        for entry in history.entries
    ]
    return _dumped(name=history.name, kind=history.kind, revisions=revisions)


def rules_json(table: RuleTable) -> str:
    """Return the rule table as JSON."""
    rules = [
        {**_stated(rule, "id", "kind", "action", "levels"), "cases": [_case(case) for case in rule.case]}
        for rule in table.rules.values()
    ]
    return _dumped(rules=rules)


def _case(case: Case) -> dict[str, object]:
    return {"case": case.name, **_stated(case, "level", "effect", "mirror"), **_verdicts(case)}


def _stated(value: object, *names: str) -> dict[str, object]:
    """Return attributes that are written as they are."""
    return {name: getattr(value, name) for name in names}


def _verdicts(judged: Case | Change) -> dict[str, object]:
    return {"old_to_new": judged.old_to_new._asdict(), "new_to_old": judged.new_to_old._asdict()}


def _dumped(**members: object) -> str:
    """Return a document as indented text, with all other characters than ASCII's escaped."""
    return json.dumps({"format": REPORT_FORMAT, **members}, indent=2) + "\n"


def _change(change: Change) -> dict[str, object]:
    return {
        **_stated(change, *_CHANGE),
        **_verdicts(change),
        "old": _place(change.old),
        "new": _place(change.new),
        "note": change.note or None,
    }


def _place(place: Place | None) -> dict[str, object] | None:
    if place is None:
        return None
    line, end = (place.span.line, place.span.end_line) if place.span else (None, None)
    other = {"file": checkout_file(place.span.path)} if place.span and place.span.path else {}
    return {"path": place.path, "text": place.text, "line": line, "end_line": end, **other}
