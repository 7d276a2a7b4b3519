"""Loads the server that a command line names, and shows the author's own traceback if his code raises."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, cast

import click

from mcprev.callbacks import at_once
from mcprev.cli.table import clean, echo_lines
from mcprev.core.temporary_folders import NoTemporaryFolder
from mcprev.errors import MissingExtra
from mcprev.serving.source_files import is_own_source

if TYPE_CHECKING:
    from mcprev.server.service import Service
    from mcprev.transports.http.server.asgi import AsgiApp

_MACHINERY: Final = (
    "<frozen importlib",
    importlib.__file__,
    str(Path(click.__file__).parent),
    str(Path(__file__).parent),
)
"""The beginnings of the paths of code that runs the author's; its frames are not shown."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A server that a command line names."""

    server: Service
    asgi: AsgiApp | None
    """What the target is, or the module serves when it is imported; None for the server with its own options."""
    modules: tuple[ModuleType, ...]
    """The modules that were imported to load it, its own first."""


def load_server(target: str, arguments: Sequence[str] = ()) -> Loaded:
    """Return the server that a target names: `MODULE:SERVER`, or `MODULE` if there is only one in the module.

    The module reads `arguments` in `sys.argv`. Raises `click.ClickException` for a target that names no server, and ends
    the command with exit code 1 if the author's code raises.
    """
    module_name, colon, name = target.rpartition(":")
    if not colon:
        module_name, name = target, ""
    if not module_name or (colon and not name):
        raise click.UsageError(
            f"'{target}' is not MODULE:SERVER, such as server.py:server or package.module:server"
        )
    before = set(sys.modules)
    sys.argv = [module_name, *arguments]
    with author_errors(), _noting_runs() as noted:
        module = _module(module_name)
    found, name = (_named(module, name), name) if name else _only(module)
    where = f"'{name}' in {module_name}"
    if _server_of(found) is None and not hasattr(found, "server") and callable(found):
        found = _made_by(found, where)
        where = f"'{name}()' in {module_name}"
    server = _server_of(found)
    if server is None:
        found = getattr(found, "server", found)
        raise click.ClickException(
            f"{where} is not a mcprev.Server or mcprev.App but a {type(found).__name__}"
        )
    imported = [each for key, each in tuple(sys.modules.items()) if key not in before and each is not module]
    asgi = cast("AsgiApp", found) if hasattr(found, "settings") else None
    if asgi is None:
        asgi = next((app for app in noted if app.server is server), None)
    return Loaded(server, asgi, (module, *imported))


def _named(module: ModuleType, name: str) -> object:
    found: object = module
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise click.ClickException(f"there is no '{name}' in {_title(module)}")
    return found


def _only(module: ModuleType) -> tuple[object, str]:
    """Return the one server of a module and its name: an ASGI app before its app, an app before those mounted in it."""
    kinds = (
        "mcprev.server.service.Service",
        "mcprev.app.app.App",
        "mcprev.transports.http.server.asgi.AsgiApp",
    )
    order = {path: number for number, path in enumerate(kinds)}

    def rank(value: object) -> int:
        paths = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(value).__mro__)
        return max((order.get(path, -1) for path in paths), default=-1)

    found = {name: value for name, value in vars(module).items() if rank(value) >= 0}
    mounted = {id(each) for value in found.values() for each in getattr(value, "_mounted", ())}
    best: dict[int, tuple[object, str]] = {}
    for name, value in sorted(found.items(), key=lambda pair: (-rank(pair[1]), pair[0].startswith("_"))):
        if id(value) not in mounted:
            # Several ASGI apps of one server differ in their options, so each of them counts.
            server = _server_of(value)
            known = best.setdefault(id(server), (value, name))
            if known[0] is not value and rank(known[0]) == rank(value) == order[kinds[2]]:
                best[id(value)] = (value, name)
    if len(best) == 1:
        return next(iter(best.values()))
    title = _title(module)
    if best:
        names = ", ".join(sorted(name for _, name in best.values()))
        raise click.ClickException(
            f"{title} has several servers: {names}; name one, as in {title}:{min(n for _, n in best.values())}"
        )
    raise click.ClickException(
        f"there is no mcprev.Server or mcprev.App in {title}; name a function that returns one, as in {title}:make"
    )


def _server_of(found: object) -> Service | None:
    """Return the server that an object is or has."""
    from mcprev.server.service import Service

    if isinstance(found, Service):
        return found
    try:
        server: object = getattr(found, "server", None)  # of an App, which makes it now
    except (ValueError, TypeError) as error:
        raise click.ClickException(str(error)) from None
    return server if isinstance(server, Service) else None


def _made_by(factory: Callable[..., object], where: str) -> object:
    """Return the server that a function makes. Raises `click.ClickException` for a function that cannot be called."""
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise click.ClickException(f"{where} cannot be called without arguments: {error}") from None
    with author_errors():
        found = factory()
    try:
        return at_once(found, where)
    except TypeError:
        raise click.ClickException(
            f"{where} is async; create the server in a function that is not async"
        ) from None


def _title(module: ModuleType) -> str:
    """Return the name of a module as the command line has it."""
    return sys.argv[0] if sys.argv[0].endswith(".py") else module.__name__


def _module(name: str) -> ModuleType:
    sys.path.insert(0, str(Path.cwd()))
    if not name.endswith(".py"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
                raise  # the module exists, but one of its imports does not
            raise click.ClickException(f"there is no module '{name}'") from error
    path = Path(name)
    try:
        path.open("rb").close()
    except FileNotFoundError:
        raise click.ClickException(f"there is no file '{clean(name)}'") from None
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise click.ClickException(f"cannot read '{clean(name)}': {why}; name a Python file") from None
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        if error.filename is not None:
            raise
        raise click.ClickException(f"'{clean(name)}' is not valid Python: {error.msg}") from None
    return module


@contextmanager
def author_errors(*, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Print what the author's code raises, without the frames of the command, and end the command with code 1.

    Errors `but` are raised. A missing extra is the user's to install, so its message is enough.
    """
    try:
        yield
    except (click.ClickException, click.exceptions.Exit):
        raise
    except MissingExtra as error:
        raise click.ClickException(f"{error}: pip install 'mcprev[{error.extra}]'") from None
    except NoTemporaryFolder as error:
        raise click.ClickException(str(error)) from None
    except but:
        raise
    except Exception as error:  # noqa: BLE001 - of code that is not ours
        shown = traceback.TracebackException.from_exception(error)
        _strip(shown)
        echo_lines(
            "\n".join(clean(line) for line in "".join(shown.format()).rstrip("\n").split("\n")), err=True
        )
        raise click.exceptions.Exit(1) from None


def _strip(shown: traceback.TracebackException) -> None:
    """Remove the frames of what ran the author's code from a traceback and those chained to it."""
    frames = [frame for frame in shown.stack if not frame.filename.startswith(_MACHINERY)]
    own = (number for number, frame in enumerate(frames) if is_own_source(frame.filename))
    shown.stack[:] = frames[next(own, 0) :]
    for other in (shown.__cause__, shown.__context__, *(getattr(shown, "exceptions", None) or ())):
        if other is not None:
            _strip(other)


@contextmanager
def _noting_runs() -> Iterator[list[AsgiApp]]:
    """Note the apps that a module serves over HTTP when it is imported, and serve nothing: that is up to the command."""
    from mcprev.serving import running
    from mcprev.transports.stdio import server as pipes

    noted: list[AsgiApp] = []

    def run_http(app: AsgiApp, host: str, port: int) -> None:
        del host, port
        noted.append(app)

    def run_stdio(make: object) -> None:
        del make

    instead = ((running, run_http), (pipes, run_stdio))
    before = [(module, each.__name__, getattr(module, each.__name__)) for module, each in instead]
    for module, each in instead:
        setattr(module, each.__name__, each)
    try:
        yield noted
    finally:
        for module, name, original in before:
            setattr(module, name, original)
