"""The areas of a comparison, one module each: types, members, values, methods, constants."""

from mcprev_codegen.diff.comparison.areas.constants import compare_constants as compare_constants
from mcprev_codegen.diff.comparison.areas.methods import compare_methods as compare_methods
from mcprev_codegen.diff.comparison.areas.types import compare_declarations as compare_declarations
