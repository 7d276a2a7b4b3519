"""schema.ts: read into the IR, and printed from it in canonical form. All names of `printer` are public."""

from mcprev_codegen.typescript.jsdoc import plain_text as plain_text
from mcprev_codegen.typescript.printer import *  # noqa: F403
from mcprev_codegen.typescript.reader import (
    Sources as Sources,
    parse as parse,
    parse_fragment as parse_fragment,
)
