"""The models of one revision as pydantic writes them: the files, and the names and patterns that they cannot have.

The rest of `emit` uses these five names only; a further target that writes the same plan has them too.
"""

from mcprev_codegen.emit.pydantic.checks import (
    hides_member as hides_member,
    is_checked as is_checked,
    pattern_error as pattern_error,
)
from mcprev_codegen.emit.pydantic.modules import IMPORTED as IMPORTED, model_files as model_files
