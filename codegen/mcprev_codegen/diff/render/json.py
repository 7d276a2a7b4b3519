"""Renders a report as JSON, in the versioned format that `report.schema.json` describes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from mcprev_codegen.diff.changes import Change, Judgement, Names, Place, Report, RuleTable, Subject, Verdict
from mcprev_codegen.diff.report import History
from mcprev_codegen.ir import Json

REPORT_FORMAT: Final = 1


def report_json(report: Report) -> dict[str, Json]:
    """Return the report as JSON values."""
    return {
        "format": REPORT_FORMAT,
        "old": _subject(report.old),
        "new": _subject(report.new),
        "summary": {
            "verdicts": _counts(report.counts()),
            "old_client_new_server": _counts(report.pairing(client_is_old=True)),
            "new_client_old_server": _counts(report.pairing(client_is_old=False)),
            "requests": _names(report.requests),
            "notifications": _names(report.notifications),
            "types": _names(report.types),
            "renamed": [{"old": old, "new": new} for old, new in report.renamed],
            "hidden": report.hidden,
            "notes": list(report.notes),
        },
        "changes": [change_json(change) for change in report.changes],
        "ignored": [{"reason": i.reason, "change": change_json(i.change)} for i in report.ignored],
    }


def change_json(change: Change) -> dict[str, Json]:
    """Return one change as JSON values."""
    return {
        "id": change.id,
        "case": change.case,
        "fingerprint": change.fingerprint,
        "path": change.path,
        "kind": change.kind,
        "action": change.action,
        "level": change.level.value,
        "effect": change.effect.value,
        "headline": change.headline,
        "senders": list(change.senders),
        "methods": list(change.methods),
        "affects": list(change.affects),
        "old_to_new": _judgement(change.old_to_new),
        "new_to_old": _judgement(change.new_to_old),
        "old": _place(change.old),
        "new": _place(change.new),
        "note": change.note or None,
    }


def history_json(history: History) -> dict[str, Json]:
    """Return a history as JSON values."""
    return {
        "format": REPORT_FORMAT,
        "name": history.name,
        "kind": history.kind,
        "revisions": [
            {
                "revision": entry.revision,
                "state": entry.state,
                "name": entry.name,
                "changes": [change_json(change) for change in entry.changes],
            }
            for entry in history.entries
        ],
    }


def rules_json(table: RuleTable) -> dict[str, Json]:
    """Return the rule table as JSON values."""
    return {
        "format": REPORT_FORMAT,
        "rules": [
            {
                "id": rule.id,
                "kind": rule.kind,
                "action": rule.action,
                "levels": [level.value for level in rule.levels],
                "cases": [
                    {
                        "case": case.name,
                        "level": case.level.value,
                        "effect": case.effect.value,
                        "mirror": case.mirror,
                        "old_to_new": _judgement(case.old_to_new),
                        "new_to_old": _judgement(case.new_to_old),
                    }
                    for case in rule.cases.values()
                ],
            }
            for rule in table.rules.values()
        ],
    }


def dumped(value: Mapping[str, Json]) -> str:
    """Return JSON values as indented text, with all other characters than ASCII's escaped."""
    return json.dumps(value, indent=2) + "\n"


def _subject(subject: Subject) -> dict[str, Json]:
    return {"name": subject.name, "source": subject.source}


def _counts(numbers: Mapping[Verdict, int]) -> dict[str, Json]:
    return {verdict.value: number for verdict, number in numbers.items()}


def _names(names: Names) -> dict[str, Json]:
    return {"added": list(names.added), "removed": list(names.removed)}


def _judgement(judgement: Judgement) -> dict[str, Json]:
    return {"verdict": judgement.verdict.value, "reason": judgement.reason}


def _place(place: Place | None) -> Json:
    if place is None:
        return None
    span = place.span
    return {
        "path": place.path,
        "text": place.text,
        "line": span.line if span else None,
        "end_line": span.end_line if span else None,
    }
