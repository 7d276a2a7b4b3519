"""The contents of a resource as clients return them: the generated model, with its text (RES-2)."""

from __future__ import annotations

from mcprev_types.latest import models


class ResourceResult(models.ReadResourceResult):
    """The result of `Client.read_resource`: a `ReadResourceResult` of the latest revision, with its text."""

    @property
    def text(self) -> str:
        """The texts of all contents that are text, joined by line breaks; binary contents are left out."""
        return "\n".join(
            found.text for found in self.contents if isinstance(found, models.TextResourceContents)
        )
