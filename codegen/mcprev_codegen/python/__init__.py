"""How generated Python is written: names, literals, docstrings and templates. All names of both modules are public."""

from mcprev_codegen.python.names import *  # noqa: F403
from mcprev_codegen.python.writers import *  # noqa: F403
