"""What becomes a class or alias, in which module, and in which order: what is true for any target."""

from mcprev_codegen.emit.models.plan import (
    ModelAlias as ModelAlias,
    ModelClass as ModelClass,
    ModelMember as ModelMember,
    ModelModule as ModelModule,
    ModelPlan as ModelPlan,
    OpenUnion as OpenUnion,
)
from mcprev_codegen.emit.models.planner import model_schema as model_schema, plan_models as plan_models
