"""The files of one revision: models, tables, stubs, JSON documents, and what stands beside the packages."""

from mcprev_codegen.emit.package import (
    RevisionChain as RevisionChain,
    is_generated as is_generated,
    package_files as package_files,
)
from mcprev_codegen.emit.provenance import SHARED as SHARED
from mcprev_codegen.emit.shared import project_file as project_file, shared_files as shared_files
