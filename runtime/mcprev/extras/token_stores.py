"""Token stores that outlive the process: files that only their owner can read, and the keyring of the system (AUTH-22).

Each record has a name of its own, a hash of what it belongs to. Stores of several processes can share a folder: a
record is written as a whole, and the last one written stays.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from tempfile import mkstemp
from typing import Final, Protocol, TypeVar, cast

from pydantic import TypeAdapter

from mcprev.errors import MissingExtra
from mcprev.oauth.store import Registration, TokenKey, Tokens

R = TypeVar("R", Tokens, Registration)
SERVICE: Final = "mcprev"
"""The default name of the service in the keyring."""


class Keyring(Protocol):
    """Keeps texts by name: the functions of the `keyring` library, or of one of its backends, that the stores call."""

    def get_password(self, service: str, username: str, /) -> str | None:
        """Return a secret, or None."""
        ...

    def set_password(self, service: str, username: str, password: str, /) -> None:
        """Store a secret."""
        ...

    def delete_password(self, service: str, username: str, /) -> None:
        """Delete a secret, which must be there."""
        ...


class KeptTokens:
    """The base of both stores: converts records to texts of a keyring. A damaged record counts as missing."""

    def __init__(self, keyring: Keyring, service: str) -> None:
        self._keyring, self._service = keyring, service

    async def tokens(self, key: TokenKey, /) -> Tokens | None:
        """Return the stored tokens, or None."""
        return await self._record(Tokens, *key)

    async def keep_tokens(self, key: TokenKey, tokens: Tokens | None, /) -> None:
        """Store tokens, replacing earlier ones; None deletes them."""
        await self._keep(tokens, *key)

    async def registration(self, issuer: str, /) -> Registration | None:
        """Return the client's registration at an authorization server, or None."""
        return await self._record(Registration, issuer)

    async def keep_registration(self, issuer: str, registration: Registration | None, /) -> None:
        """Store a registration, replacing an earlier one; None deletes it."""
        await self._keep(registration, issuer)

    async def _record(self, kind: type[R], *key: str) -> R | None:
        text = await asyncio.to_thread(self._keyring.get_password, self._service, _name(key))
        try:
            found = json.loads(text or "null")
            return TypeAdapter(kind).validate_python(found["record"]) if found["key"] == list(key) else None
        except (ValueError, TypeError, KeyError, RecursionError):
            return None

    async def _keep(self, record: Tokens | Registration | None, *key: str) -> None:
        keyring, place = self._keyring, (self._service, _name(key))
        if record is not None:
            text = json.dumps({"key": key, "record": asdict(record)})
            await asyncio.to_thread(keyring.set_password, *place, text)
        elif await asyncio.to_thread(keyring.get_password, *place) is not None:
            await asyncio.to_thread(keyring.delete_password, *place)


def _name(key: tuple[str, ...]) -> str:
    return hashlib.sha256("\n".join(key).encode()).hexdigest()


class _Folder:
    """A keyring in files that only their owner can read, for one service."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_password(self, _service: str, name: str, /) -> str | None:
        try:
            self._check_folder()
            return (self._folder / name).read_text("utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            return ""  # a damaged record

    def set_password(self, _service: str, name: str, text: str, /) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_folder()
        # `mkstemp` makes a file that only its owner can read.
        descriptor, temporary = mkstemp(dir=self._folder, prefix=".new-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self._folder / name)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def delete_password(self, _service: str, name: str, /) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def _check_folder(self) -> None:
        """Raise `PermissionError` for a folder in which other users can put tokens; Windows has no such modes."""
        if sys.platform == "win32":
            return
        found = self._folder.stat()
        if found.st_uid not in (os.geteuid(), 0) or found.st_mode & 0o022:
            raise PermissionError(f"others can write into the folder '{self._folder}': chmod 700 it")


class DiskTokens(KeptTokens):
    """Stores tokens and registrations in files that only their owner can read: `OAuth(store=DiskTokens("tokens"))`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Set the folder, which is created with the first record. Calls raise `OSError` if files cannot be written."""
        super().__init__(_Folder(Path(folder)), SERVICE)


class KeyringTokens(KeptTokens):
    """Stores tokens and registrations in the keyring of the system: `OAuth(store=KeyringTokens())`."""

    def __init__(self, service: str = SERVICE, *, backend: Keyring | None = None) -> None:
        """Set the name of the service in the keyring, and the `backend` of the library `keyring`. None: its default.

        Raises `MissingExtra` if `keyring` is not installed (`pip install 'mcprev[keyring]'`). Calls raise the errors of
        `keyring`.
        """
        if backend is None:
            try:
                backend = cast("Keyring", import_module("keyring"))
            except ImportError as error:
                raise MissingExtra("storing tokens in the keyring", "keyring", "keyring") from error
        super().__init__(backend, service)
