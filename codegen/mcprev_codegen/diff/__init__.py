"""`mcprev diff`: what changed between two revisions of the schema, and whom it breaks.

    report = compare_sides(folder, load_side(folder, "A"), load_side(folder, "path/to/schema.ts"))
    breaking = [change for change in report.changes if change.worst is Verdict.BREAKING]

Every change says where it is, who sends the data, and two verdicts with a reason each: what a new peer makes
of an old one's data, and what an old peer makes of a new one's. They hold for peers that talk without having
negotiated a revision; peers that negotiate never meet the difference.
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
