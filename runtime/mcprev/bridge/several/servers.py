"""The servers of a bridge: given in Python, or in the `mcpServers` configuration of hosts, which is read again when it changes."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from mcprev.bridge.several.member import ServerSpec
from mcprev.bridge.several.names import Naming
from mcprev.bridge.several.options import KEY, BridgedServer, UserLogin, offer_of, options_of
from mcprev.bridge.upstream import logger
from mcprev.client.host_config import checked_url, config_entries, naming, target_of_entry, usual
from mcprev.client.targets import HasServer, Target, target_of
from mcprev.errors import Json, one_line
from mcprev.platforms import HERE
from mcprev.wire.json_values import is_json_object

if TYPE_CHECKING:
    from mcprev.bridge.several.logins import Logins
    from mcprev.transports.http.client.authorization import Authorization
    from mcprev.transports.memory import PipeServer

Servers: TypeAlias = "Mapping[str, BridgedServer | Target | PipeServer | HasServer | str]"
"""Servers by name."""
POLL: Final = 2.0
"""Seconds between two looks whether the file has changed."""
_OF_NAMES: Final = ("prefix", "allow", "deny", "rename", "describe")


def specs_of(servers: Servers, logins: Logins | None = None) -> dict[str, ServerSpec]:
    """Return how servers are configured. Raises `ValueError`, and `TypeError` for a target of another type."""
    if not servers:
        raise ValueError("a bridge requires at least one server")
    return {name: _spec(name, server, logins) for name, server in servers.items()}


def _spec(
    name: str, server: BridgedServer | Target | PipeServer | HasServer | str, logins: Logins | None
) -> ServerSpec:
    given = server if isinstance(server, BridgedServer) else BridgedServer(target=server)
    naming_, login, url = Naming.of(name, given.prefix, given.offer), given.login, given.target
    source = url, given.per_principal, login
    if login is None:
        target = target_of(url)
        return ServerSpec(
            naming=naming_, target=lambda _: target, per_principal=given.per_principal, source=source
        )
    if not isinstance(url, str):
        raise TypeError(f"the server '{name}' requires a URL as `target`, because users log in at it")
    from mcprev.transports.http.client.target import http

    return _spec_with_logins(naming_, source, lambda auth: http(url, auth=auth), login, logins)


def _spec_with_logins(
    naming_: Naming,
    source: object,
    new_target: Callable[[Authorization | None], Target],
    login: UserLogin,
    logins: Logins | None,
) -> ServerSpec:
    from mcprev.bridge.several.credentials import targets_for

    target, of_logins = targets_for(naming_.server, new_target, login, logins)
    target(None)  # a mistake in the options shows now
    return ServerSpec(
        naming=naming_,
        target=target,
        per_principal=True,
        source=source,
        logs_in=True,
        login_target=of_logins,
    )


def specs_of_entries(entries: Mapping[str, Json], logins: Logins | None = None) -> dict[str, ServerSpec]:
    """Return how the servers of a configuration are configured. Raises `ValueError` that names the invalid entry."""
    found: dict[str, ServerSpec] = {}
    for name, entry in entries.items():
        with naming(name):
            found[name] = _spec_of_entry(name, entry, logins)
    if not found:
        raise ValueError("every server of the configuration is disabled")
    return found


def _spec_of_entry(name: str, entry: Json, logins: Logins | None) -> ServerSpec:
    if isinstance(entry, str):
        return _spec(name, checked_url(entry), logins)
    if not is_json_object(entry):
        raise TypeError("it is not an object; write one with `command` or `url`")
    members, options = entry, options_of(entry)
    prefix, per_principal = options.get("prefix"), options.get("perPrincipal", False)
    if prefix is not None and not isinstance(prefix, str):
        raise TypeError(f"`{KEY}.prefix` is not a string")
    if not isinstance(per_principal, bool):
        raise TypeError(f"`{KEY}.perPrincipal` must be true or false")
    plain = usual({each: value for each, value in members.items() if each != KEY})
    kept = {each: value for each, value in options.items() if each not in _OF_NAMES}
    naming_ = Naming.of(name, prefix, offer_of(options))
    source = json.dumps({**members, KEY: kept}, sort_keys=True)
    if options.get("auth") is None:
        target = target_of_entry(plain)
        return ServerSpec(naming=naming_, target=lambda _: target, per_principal=per_principal, source=source)
    from mcprev.bridge.several.credentials import auth_of

    auth = auth_of(options)
    if "url" not in plain:
        raise ValueError(f"`{KEY}.auth` is for a server with a `url`; pass credentials of a command in `env`")
    if isinstance(auth, UserLogin):
        return _spec_with_logins(naming_, source, partial(target_of_entry, plain), auth, logins)
    target = target_of_entry(plain, auth)
    return ServerSpec(naming=naming_, target=lambda _: target, per_principal=per_principal, source=source)


class ConfigFile:
    """A file with the `mcpServers` configuration of hosts, for `mcprev.Bridge`, which reads it again when it changes."""

    def __init__(self, path: str | os.PathLike[str], *, poll: float = POLL, hangup: bool = False) -> None:
        """Set the path; `poll` is the interval in seconds at which the file is checked for changes.

        `hangup` also reads it again when the process receives SIGHUP; its handler replaces that of the process while
        the bridge runs.
        """
        self.path: Path = Path(path)
        self._poll = poll
        self._hangup = hangup
        self._seen: object = None
        self._logins: Logins | None = None
        self._again: asyncio.Event | None = None

    def read(self, logins: Logins | None = None) -> dict[str, ServerSpec]:
        """Return how the servers are configured. Raises `OSError` and `ValueError`."""
        self._seen, self._logins = self._stat(), logins
        return specs_of_entries(config_entries(self.path), logins)

    def _stat(self) -> object:
        """Return what tells one state of the file from another."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def reload(self) -> None:
        """Read the file again soon, even if it has not changed."""
        self._seen = object()
        if self._again is not None:
            self._again.set()

    async def watch(self, configure: Callable[[dict[str, ServerSpec]], None]) -> None:
        """Read the file again whenever it has changed. One that is not valid is logged, and changes nothing."""
        loop, again = asyncio.get_running_loop(), asyncio.Event()
        self._again = again
        signals = HERE.reload_signals if self._hangup else ()
        for number in signals:
            with suppress(RuntimeError, ValueError, NotImplementedError):  # not the main thread
                loop.add_signal_handler(number, self.reload)
        try:
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._poll):
                        await again.wait()
                again.clear()
                if await asyncio.to_thread(self._stat) == self._seen:
                    continue
                try:
                    specs = await asyncio.to_thread(self.read, self._logins)
                    configure(specs)
                except (OSError, ValueError) as error:
                    logger.error(
                        "%s is invalid and was ignored; the servers are unchanged: %s",
                        self.path,
                        one_line(error),
                    )
                else:
                    logger.warning("%s was read again: %s", self.path, ", ".join(map(one_line, specs)))
        finally:
            for number in signals:
                with suppress(RuntimeError, ValueError, NotImplementedError):
                    loop.remove_signal_handler(number)
