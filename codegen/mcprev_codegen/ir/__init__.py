"""The intermediate representation (IR): what a schema.ts declares, as frozen values.

All names of `nodes` and `visit` are public.
"""

from mcprev_codegen.ir.constraints import (
    CONSTRAINTS as CONSTRAINTS,
    Constraint as Constraint,
    Limit as Limit,
    exceeded as exceeded,
    limits_of as limits_of,
)
from mcprev_codegen.ir.names import pascal_case as pascal_case
from mcprev_codegen.ir.nodes import *  # noqa: F403
from mcprev_codegen.ir.stated import stated_type as stated_type
from mcprev_codegen.ir.visit import *  # noqa: F403
