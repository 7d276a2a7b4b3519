"""Bytes from outside: the schema folder and its pins, files, downloads, git objects and tables.

All names of `extensions`, `files` and `pins` are public.
"""

from mcprev_codegen.inputs.download import (
    fetch as fetch,
    is_url as is_url,
    without_secrets as without_secrets,
)
from mcprev_codegen.inputs.extensions import *  # noqa: F403
from mcprev_codegen.inputs.files import *  # noqa: F403
from mcprev_codegen.inputs.folder import (
    SchemaFolder as SchemaFolder,
    read_once as read_once,
    schema_folder as schema_folder,
)
from mcprev_codegen.inputs.git import find_repository as find_repository
from mcprev_codegen.inputs.imports import (
    TypeScriptFiles as TypeScriptFiles,
    index_of as index_of,
    schema_file as schema_file,
)
from mcprev_codegen.inputs.names_file import load_names as load_names, with_names as with_names
from mcprev_codegen.inputs.pins import *  # noqa: F403
from mcprev_codegen.inputs.tables import Table as Table, read_table as read_table
