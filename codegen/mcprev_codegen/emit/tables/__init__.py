"""What the modules with tables of a revision's package contain, as their templates print it."""

from mcprev_codegen.emit.tables.constants import (
    CONSTANT_TABLES as CONSTANT_TABLES,
    constant_tables as constant_tables,
)
from mcprev_codegen.emit.tables.deltas import delta_tables as delta_tables
from mcprev_codegen.emit.tables.dispatch import (
    DISPATCH_CLASSES as DISPATCH_CLASSES,
    dispatch_classes as dispatch_classes,
)
from mcprev_codegen.emit.tables.methods import method_tables as method_tables
