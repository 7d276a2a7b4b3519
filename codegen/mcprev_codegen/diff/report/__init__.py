"""Chooses changes and words them."""

from mcprev_codegen.diff.report.histories import (
    History as History,
    HistoryEntry as HistoryEntry,
    history as history,
)
from mcprev_codegen.diff.report.ignoring import ignore as ignore, read_ignores as read_ignores
from mcprev_codegen.diff.report.rows import Row as Row, in_rows as in_rows
from mcprev_codegen.diff.report.selection import (
    Selection as Selection,
    SelectionError as SelectionError,
    select as select,
)
