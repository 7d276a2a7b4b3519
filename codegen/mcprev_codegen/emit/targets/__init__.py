"""What the types of a revision are made for: pydantic, or another library; one row each in `table`."""

from mcprev_codegen.emit.targets.table import TARGETS as TARGETS
