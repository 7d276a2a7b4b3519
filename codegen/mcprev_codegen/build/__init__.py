"""A whole run: all packages and pages, written together or not at all. All names of `packages` are public."""

from mcprev_codegen.build.packages import *  # noqa: F403
