"""What differs between POSIX systems and Windows: one interface, `interface.Platform`, with one implementation for each.

No other code asks which system it runs on. `HERE` is the platform of this process.
"""

from __future__ import annotations

import sys
from typing import Final

from mcprev.platforms.interface import Platform


def _this_platform() -> Platform:
    if sys.platform == "win32":
        from mcprev.platforms.windows import Windows
        from mcprev.platforms.windows_kernel import WindowsKernel

        return Windows(WindowsKernel())
    else:  # noqa: RET505 - type checkers pass over the other branch
        from mcprev.platforms.posix import Posix

        return Posix()


HERE: Final = _this_platform()
