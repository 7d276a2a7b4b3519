"""What becomes a class or alias, in which module, and in which order."""

from mcprev_codegen.emit.models.plan import (
    ModelModule as ModelModule,
    ModelPlanner as ModelPlanner,
    model_modules as model_modules,
)
from mcprev_codegen.emit.models.sections import categories as categories
