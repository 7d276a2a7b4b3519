"""The models of one revision as pydantic writes them."""

from mcprev_codegen.emit.pydantic.modules import IMPORTED as IMPORTED, model_files as model_files
