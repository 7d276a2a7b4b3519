"""schema.ts: read into the IR, and printed from it in canonical form."""

from mcprev_codegen.typescript.jsdoc import plain_text as plain_text
from mcprev_codegen.typescript.printer import (
    print_inline as print_inline,
    print_member as print_member,
    print_module as print_module,
    print_type as print_type,
)
from mcprev_codegen.typescript.reader import parse as parse, parse_fragment as parse_fragment
