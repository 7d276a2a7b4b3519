"""How large a schema.ts may be."""

from __future__ import annotations

from typing import Final

MAX_NESTING: Final = 20
"""The maximum nesting depth of generics."""
MAX_DEPTH: Final = 40
"""The maximum nesting depth of types that have no names."""
MAX_DECLARATIONS: Final = 10_000
"""The maximum number of declarations; upstream has a fiftieth of that."""
MAX_INSTANCES: Final = 3_000
"""The maximum number of declarations that the uses of generics become."""
MAX_ARGUMENT: Final = 50
"""The maximum number of types and members in an argument of a generic."""
MAX_TEXT: Final = 1_000
"""The maximum length of a name or literal; the longest of upstream's has a twentieth of that."""
MAX_DIGITS: Final = 100
"""The maximum length of a number, within which every fraction is finite."""
MAX_TYPES: Final = 100_000
"""The maximum number of types and members; upstream has a twentieth of that."""
MAX_TEMPLATES: Final = 1_000
"""The maximum number of templates and literals that a template literal type with unions stands for."""
MAX_FILES: Final = 1_000
"""The maximum number of files that one schema leads to."""
MAX_CHAIN: Final = 100
"""The maximum number of files that lead to one another, and of names that a name leads to."""
