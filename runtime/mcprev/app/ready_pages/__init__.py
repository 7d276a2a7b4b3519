"""Pages that are ready to use, for clients with the extension for user interfaces; see `mcprev.extensions.ui`.

These names are public; the modules are not.
"""

from mcprev.app.ready_pages.generated import MAX_GENERATED, generated_page

__all__ = ["MAX_GENERATED", "generated_page"]
