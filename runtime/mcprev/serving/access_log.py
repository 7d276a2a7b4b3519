"""The access log: a line for each HTTP request, on the logger `mcprev.access` at INFO, for probes at DEBUG.

Records have the parts of the line as attributes, for formatters: `client`, `verb`, `path`, `method`, `status`, `milliseconds`.

It costs nothing while that logger is off, which it is unless the program, or `mcprev serve`, turns it on. Text of a client
is shortened and printable; queries, headers, tokens and session ids are not in it.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from mcprev.transports.http.urls import printable

if TYPE_CHECKING:
    from mcprev.transports.http.server.http_app import HttpApp
    from mcprev.transports.http.server.request import Fields, HttpRequest

access: Final = logging.getLogger("mcprev.access")


def log_access(app: HttpApp) -> None:
    """Log each request of an app when its response begins, with the milliseconds until then."""
    serve = app.serve

    async def logged(http_request: HttpRequest) -> None:
        began = time.perf_counter()
        answer, begin = http_request.answer, http_request.begin

        def log(status: str) -> None:
            if status == "-" and "answer" not in vars(http_request):
                return
            del vars(http_request)["answer"], vars(http_request)["begin"]  # no cycle is left
            host, port, *_ = http_request.scope.get("client") or ("-", 0)
            fields = {
                "client": f"{host}:{port}" if port else str(host),
                "verb": printable(http_request.verb),
                "path": printable(http_request.path),
                "method": printable(http_request.method or "-"),
                "status": status,
                "milliseconds": round(1000 * (time.perf_counter() - began), 1),
            }
            level = logging.DEBUG if http_request.quiet else logging.INFO
            access.log(level, '%s "%s %s" %s %s %.1f ms', *fields.values(), extra=fields)

        async def noted_answer(status: int, fields: Fields, body: bytes) -> None:
            log(str(status))
            await answer(status, fields, body)

        async def noted_begin(status: int, fields: Fields, data: bytes) -> None:
            log(str(status))
            await begin(status, fields, data)

        vars(http_request).update(answer=noted_answer, begin=noted_begin)
        try:
            await serve(http_request)
        finally:
            log("-")  # the client has gone, or the request failed

    vars(app)["serve"] = logged
