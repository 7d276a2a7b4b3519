"""A whole run: all packages and pages, written together or not at all."""

from mcprev_codegen.build.packages import (
    PACKAGE as PACKAGE,
    generate as generate,
    generate_project as generate_project,
)
