"""`mcprev diff`: compares two revisions of the schema and judges which peers each change breaks.

    report = compare_revisions(folder, load_input(folder, "A"), load_input(folder, "path/to/schema.ts"))
    breaking = [change for change in report.changes if change.worst is Verdict.BREAKING]

Every change has a place, the senders of the data, and two verdicts with a reason each: for a new peer that receives an
old peer's data, and for an old peer that receives a new peer's data. The verdicts apply to peers that use different
revisions because they do not negotiate one.
"""

from mcprev_codegen.diff.comparison import compare, compare_revisions
from mcprev_codegen.diff.histories import History, HistoryEntry, history
from mcprev_codegen.diff.ignoring import ignore, read_ignores
from mcprev_codegen.diff.inputs import UnknownRevisionError, load_input
from mcprev_codegen.diff.model import (
    Change,
    Effect,
    Ignored,
    Judgement,
    Level,
    Names,
    Place,
    Report,
    Subject,
    Verdict,
)
from mcprev_codegen.diff.rules import Case, Rule, RuleTable, table
from mcprev_codegen.diff.selection import Selection, SelectionError, select

__all__ = [
    "Case",
    "Change",
    "Effect",
    "History",
    "HistoryEntry",
    "Ignored",
    "Judgement",
    "Level",
    "Names",
    "Place",
    "Report",
    "Rule",
    "RuleTable",
    "Selection",
    "SelectionError",
    "Subject",
    "UnknownRevisionError",
    "Verdict",
    "compare",
    "compare_revisions",
    "history",
    "ignore",
    "load_input",
    "read_ignores",
    "select",
    "table",
]
