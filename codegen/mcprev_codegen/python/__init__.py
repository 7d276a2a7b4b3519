"""How generated Python is written: names, literals, docstrings and templates."""

from mcprev_codegen.python.names import (
    PythonNames as PythonNames,
    check_revision as check_revision,
    is_identifier as is_identifier,
    is_module as is_module,
    module_name as module_name,
    snake_case as snake_case,
    stub as stub,
)
from mcprev_codegen.python.writers import (
    Code as Code,
    code as code,
    comment as comment,
    docstring as docstring,
    identifier as identifier,
    joined as joined,
    json_document as json_document,
    literal as literal,
    render as render,
    revision_name as revision_name,
    toml_string as toml_string,
)
