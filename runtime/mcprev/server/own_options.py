"""The options of HTTP that a server is made with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcprev.auth.bearer import Bearer
    from mcprev.transports.http.server.options import HttpOptions


def own_options(auth: Bearer | None, http: HttpOptions | None) -> HttpOptions:
    """Return the options of HTTP that a server is made with. Raises `TypeError` and `ValueError` for wrong ones."""
    options: HttpOptions = {} if http is None else {**http}
    if auth is not None:
        if "auth" in options:
            raise ValueError("`auth` is given twice: pass it as `auth=` or in `http`, not both")
        options["auth"] = auth
    if options:
        from mcprev.transports.http.server.options import http_settings

        http_settings(options)
    return options
