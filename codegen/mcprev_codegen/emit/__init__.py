"""The files of one revision: models, tables, stubs, JSON documents, and what stands beside the packages."""

from mcprev_codegen.emit.names.chosen import with_chosen_names as with_chosen_names
from mcprev_codegen.emit.package import RevisionChain as RevisionChain
from mcprev_codegen.emit.shared import project_file as project_file
from mcprev_codegen.emit.targets import TARGETS as TARGETS
