"""Apps made of what exists already: OpenAPI documents, FastAPI apps and folders of files. `App` inherits from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcprev.app.options import AppOptions
from mcprev.app.registry import Registry

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path
    from typing import Self

    import aiohttp
    from typing_extensions import Unpack

    from mcprev.app.openapi.asgi import OpenApiApp
    from mcprev.app.openapi.routes import OpenApiRoute
    from mcprev.errors import Json


class AppSources:
    """The part of `App` that registers tools from OpenAPI documents, FastAPI apps and folders."""

    _name: str
    _version: str
    _registered: Registry
    _executor: Executor | None

    if TYPE_CHECKING:  # of `App`

        def __init__(
            self,
            name: str,
            version: str,
            **options: Unpack[AppOptions],
        ) -> None: ...

        def mount(self, app: Any, prefix: str | None = None) -> None:  # noqa: ANN401 - an `App`
            """Serve all functions of another app."""

    @classmethod
    def from_openapi(
        cls,
        document: Mapping[str, Json] | str | Path,
        *,
        base_url: str | None = None,
        session: aiohttp.ClientSession | None = None,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        version: str | None = None,
        select: Callable[[str, str, Mapping[str, Json]], bool] | None = None,
        routes: Sequence[OpenApiRoute] = (),
        output_schemas: bool = True,
        **options: Unpack[AppOptions],
    ) -> Self:
        """Return an app whose tools are the operations of an OpenAPI 3.0 or 3.1 document, and call its HTTP API.

        - `document` is a mapping, or the path of a JSON or YAML file (YAML needs PyYAML).
        - `base_url` is the URL that the paths of the document are appended to. None: the first of its `servers`. Needed with a
          `session` and with `headers` that are credentials, so that no document says who gets them.
        - `session` is an `aiohttp.ClientSession` that sends the requests; the app does not close it. None: a new
          session for each request.
        - `headers` are sent with each request, such as `Authorization`. Clients of the server neither see nor set them.
        - `name` and `version` are those of the server. None: the title and version of the document.
        - `select(method, path, operation)` returns whether an operation becomes a tool; the method is in upper case.
          None: all of them do. It must not be async.
        - `routes` say which operations become resources or nothing instead of tools; see `mcprev.OpenApiRoute`.
        - `output_schemas` makes output schemas of the schemas of successful responses. A response that does not match is an error
          that contains the response; pass False for an API that does not follow its document.
        - `options` are those of `App`.

        The tags of an operation are the tags of its tool. Raises `ValueError` for a document that cannot be used, with
        the JSON path of the invalid member, `TypeError` if `select` returns
        neither True nor False, `OSError` for a file that cannot be read, and `mcprev.errors.MissingExtra` if
        aiohttp is not installed.
        """
        from mcprev.app.openapi.openapi import Api

        strict = options.get("strict_arguments", False)
        api = Api(
            document, base_url, session, headers, select, routes,
            output_schemas=output_schemas, strict_arguments=strict,
        )  # fmt: skip
        app = cls(name or api.info("title"), version or api.info("version"), **options)
        for kind, key, entry in api.entries():
            app._registered.add(kind, key, entry)
        return app

    @classmethod
    def from_fastapi(
        cls,
        web: OpenApiApp,
        *,
        base_url: str = "http://localhost",
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        version: str | None = None,
        select: Callable[[str, str, Mapping[str, Json]], bool] | None = None,
        routes: Sequence[OpenApiRoute] = (),
        output_schemas: bool = True,
        web_lifespan: bool = True,
        **options: Unpack[AppOptions],
    ) -> Self:
        """Return an app whose tools are the operations of a FastAPI app in the same process; no network is used.

        `web` is a `fastapi.FastAPI` or any other ASGI app with a method `openapi()`. The requests have the host of
        `base_url`, `headers`, and no client address. `web_lifespan` runs the lifespan of `web` together with that of the server; pass
        False where `web` is served in this process as well. The other arguments and errors are those of `from_openapi`.
        """
        from mcprev.app.openapi.asgi import AsgiSession
        from mcprev.app.openapi.calls import MAX_BODY
        from mcprev.app.openapi.openapi import Api

        session = AsgiSession(web, MAX_BODY)
        strict = options.get("strict_arguments", False)
        api = Api(
            web.openapi(), base_url, session, headers, select, routes,
            output_schemas=output_schemas, strict_arguments=strict,
        )  # fmt: skip
        if web_lifespan:
            own = options.get("lifespan", ())
            options["lifespan"] = (session.lifespan, *((own,) if callable(own) else own))
        app = cls(name or api.info("title"), version or api.info("version"), **options)
        for kind, key, entry in api.entries():
            app._registered.add(kind, key, entry)
        return app

    @classmethod
    def from_folder(cls, path: str | Path, name: str, version: str, **options: Unpack[AppOptions]) -> Self:
        """Return an app with the tools, resources and prompts of a folder of Python files; see `add_folder`.

        `options` are those of `App`.
        """
        app = cls(name, version, **options)
        app.add_folder(path)
        return app

    def add_folder(self, path: str | Path) -> None:
        """Register the tools, resources and prompts of all Python files in a folder, and in the folders in it.

        A file marks functions with `tool`, `resource` and `prompt` of `mcprev.app.folders`, or has an `App` as a variable,
        which is mounted. Files and folders whose names begin with `_` or `.` are ignored; other files can import them,
        as in `from ._shared import x`. The files are imported once, in the order of their names, and nothing is registered
        if one of them is wrong.

        Raises `ValueError`, whose message begins with the path of the file: for an exception in it, a name that exists already, and a link that
        leads out of the folder. Raises `OSError` for a folder that cannot be read, and the errors of `mount`.
        """
        from mcprev.app.folders import read_folder

        found = type(self)(self._name, self._version, executor=self._executor)
        read_folder(path, found)
        self.mount(found)
