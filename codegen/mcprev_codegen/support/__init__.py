"""Modules that are copied into every generated package; they import nothing of the generator."""

from mcprev_codegen.support._names import (
    ATTRIBUTE_NAMES as ATTRIBUTE_NAMES,
    camel_case as camel_case,
    wire_name as wire_name,
)
from mcprev_codegen.support._spec import (
    Child as Child,
    Direction as Direction,
    Kind as Kind,
    MethodSpec as MethodSpec,
    RevisionInfo as RevisionInfo,
    Transport as Transport,
    TypeDelta as TypeDelta,
)
