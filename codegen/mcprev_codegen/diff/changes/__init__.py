"""What a change is, and the rules that judge it. All names of `model` are public."""

from mcprev_codegen.diff.changes.model import *  # noqa: F403
from mcprev_codegen.diff.changes.rules import Case as Case, RuleTable as RuleTable, table as table
