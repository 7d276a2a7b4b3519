"""What a change is, and the rules that judge it."""

from mcprev_codegen.diff.changes.model import (
    METHOD_PREFIX as METHOD_PREFIX,
    Change as Change,
    Effect as Effect,
    Ignored as Ignored,
    Judgement as Judgement,
    Level as Level,
    Names as Names,
    Place as Place,
    Report as Report,
    Subject as Subject,
    Verdict as Verdict,
    ordered as ordered,
)
from mcprev_codegen.diff.changes.rules import RuleTable as RuleTable, table as table
