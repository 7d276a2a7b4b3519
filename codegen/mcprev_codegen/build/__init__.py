"""A whole run: all packages and pages, written together or not at all."""

from mcprev_codegen.build.packages import (
    DEFAULT_TARGET as DEFAULT_TARGET,
    PACKAGE as PACKAGE,
    Result as Result,
    generate as generate,
    generate_project as generate_project,
)
from mcprev_codegen.emit import TARGETS as TARGETS
