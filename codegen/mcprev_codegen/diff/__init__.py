"""`mcprev diff`: compares two revisions of the schema and judges which peers each change breaks.

    report = compare_revisions(folder, load_input(folder, "A"), load_input(folder, "path/to/schema.ts"))
    breaking = [change for change in report.changes if change.worst is Verdict.BREAKING]

Every change has a place, the senders of the data, and two verdicts with a reason each: for a new peer that receives an
old peer's data, and for an old peer that receives a new peer's data. The verdicts apply to peers that use different
revisions because they do not negotiate one. All names of `comparison.revisions` and `report.selection` are public.
"""

from mcprev_codegen.diff.changes.model import (
    Change as Change,
    Level as Level,
    Place as Place,
    Report as Report,
    Verdict as Verdict,
)
from mcprev_codegen.diff.changes.rules import Case as Case, table as table
from mcprev_codegen.diff.comparison.revisions import *  # noqa: F403
from mcprev_codegen.diff.inputs import UnknownRevisionError as UnknownRevisionError, load_input as load_input
from mcprev_codegen.diff.report.histories import history as history, history_of as history_of
from mcprev_codegen.diff.report.ignoring import ignore as ignore, read_ignores as read_ignores
from mcprev_codegen.diff.report.selection import *  # noqa: F403
