"""Modules that are copied into every generated package; they import nothing of the generator.

All names of `_names` and `_spec` are public.
"""

from mcprev_codegen.support._names import *  # noqa: F403
from mcprev_codegen.support._spec import *  # noqa: F403
