"""Finds the changes between two revisions."""

from mcprev_codegen.diff.comparison.revisions import compare_revisions as compare_revisions
from mcprev_codegen.diff.comparison.view import View as View
