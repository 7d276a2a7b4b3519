"""Chooses changes and words them."""

from mcprev_codegen.diff.report.histories import History as History
from mcprev_codegen.diff.report.rows import Row as Row, in_rows as in_rows
