"""The intermediate representation (IR): what a schema.ts declares, as frozen values. All names of `nodes` are public."""

from mcprev_codegen.ir.constraints import (
    CONSTRAINTS as CONSTRAINTS,
    Constraint as Constraint,
    Limit as Limit,
    exceeded as exceeded,
    limits_of as limits_of,
)
from mcprev_codegen.ir.names import pascal_case as pascal_case
from mcprev_codegen.ir.nodes import *  # noqa: F403
from mcprev_codegen.ir.visit import (
    AnyNode as AnyNode,
    Node as Node,
    contract as contract,
    cycles as cycles,
    map_inner as map_inner,
    map_nodes as map_nodes,
    reachable as reachable,
    references as references,
    walk as walk,
)
