"""`mcprev diff`: compares two revisions of the schema and judges which peers each change breaks.

    report = compare_sides(folder, load_side(folder, "A"), load_side(folder, "path/to/schema.ts"))
    breaking = [change for change in report.changes if change.worst is Verdict.BREAKING]

Every change has a place, the senders of the data, and two verdicts with a reason each: for a new peer that receives an
old peer's data, and for an old peer that receives a new peer's data. The verdicts apply to peers that use different
revisions because they do not negotiate one.
"""

from mcprev_codegen.diff.comparison import compare, compare_sides
from mcprev_codegen.diff.histories import History, HistoryEntry, history
from mcprev_codegen.diff.ignoring import ignore, read_ignores
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
from mcprev_codegen.diff.sides import UnknownRevisionError, load_side

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
    "compare_sides",
    "history",
    "ignore",
    "load_side",
    "read_ignores",
    "select",
    "table",
]
