"""Token stores that outlive the process: files that only their owner can read, and the keyring of the system (AUTH-22).

Each record has a name of its own, a hash of what it belongs to. Stores of several processes can share a folder: a
record is written as a whole, and the last one written stays. Locks between processes are locks of files: the system
ends them with the process that holds them. While a process writes, it holds another such lock, so that the next one
can delete the file that a process leaves which is killed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shlex
import stat
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from tempfile import mkstemp
from typing import Final, Protocol, TypeVar, cast

from pydantic import TypeAdapter

from mcprev.auth.client.store import Registration, TokenKey, Tokens
from mcprev.errors import AuthError, MissingExtra
from mcprev.platforms import HERE

R = TypeVar("R", Tokens, Registration)
SERVICE: Final = "mcprev"
"""The default name of the service in the keyring."""
FIRST_WAIT: Final = 0.01
MAX_WAIT: Final = 0.25
"""The first and the longest time between two attempts to take a lock, in seconds."""
WRITING: Final = 5.0
"""The maximum time to wait for another process that writes a file, in seconds."""
_TEMPORARY: Final = ".new-"
_LOCK: Final = ".lock"
_NO_LOCKS: Final = -1


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
    """The base class of both stores: converts records to strings. A damaged record counts as missing."""

    def __init__(self, keyring: Keyring, service: str, locks: Path) -> None:
        """Set the folder of the lock files."""
        self._keyring, self._service, self._folder = keyring, service, locks

    @asynccontextmanager
    async def lock(self, issuer: str, /) -> AsyncGenerator[None, None]:
        """Return the lock that processes share for the tokens and the registration at an authorization server.

        Raises `OSError` if it cannot be taken.
        """
        path = self._folder / f"{_LOCK}-{_name((issuer,))}"
        descriptor = await _locked(path)
        try:
            yield
        finally:
            _unlock(descriptor)

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
        found = _parsed(kind, text)
        return found[1] if found is not None and found[0] == key else None

    async def _keep(self, record: Tokens | Registration | None, *key: str) -> None:
        keyring, place = self._keyring, (self._service, _name(key))
        if record is not None:
            text = json.dumps({"key": key, "record": asdict(record)})
            await asyncio.to_thread(keyring.set_password, *place, text)
        elif await asyncio.to_thread(keyring.get_password, *place) is not None:
            await asyncio.to_thread(keyring.delete_password, *place)


def _parsed(kind: type[R], text: str | None) -> tuple[tuple[str, ...], R] | None:
    """Return the key and the record of a text; None if it is damaged or of another kind."""
    try:
        found = json.loads(text or "null")
        key = TypeAdapter(tuple[str, ...]).validate_python(found["key"])
        return key, TypeAdapter(kind).validate_python(found["record"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _name(key: tuple[str, ...]) -> str:
    return hashlib.sha256("\n".join(key).encode()).hexdigest()


class _Folder:
    """A keyring in files that only their owner can read, for one service."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_password(self, _service: str, name: str, /) -> str | None:
        try:
            _check_folder(self._folder)
            if any(self._left_over()):
                with suppress(OSError), self._writing(0):
                    pass
            return (self._folder / name).read_text("utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            return ""  # a damaged record

    def names(self) -> list[str]:
        """Return the names of all records."""
        try:
            return [path.name for path in self._folder.iterdir() if path.name[0] != "." and path.is_file()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def set_password(self, _service: str, name: str, text: str, /) -> None:
        _make_folder(self._folder)
        with self._writing():
            # `mkstemp` makes a file that only its owner can read.
            descriptor, temporary = mkstemp(dir=self._folder, prefix=_TEMPORARY)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                HERE.replace(Path(temporary), self._folder / name)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise

    def delete_password(self, _service: str, name: str, /) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def _left_over(self) -> Generator[Path, None, None]:
        """Yield the files of processes that write or were killed while they wrote."""
        return self._folder.glob(f"{_TEMPORARY}*")

    @contextmanager
    def _writing(self, seconds: float = WRITING) -> Generator[None, None, None]:
        """Be the only process that writes, and delete what others left. Raises `TimeoutError` after `seconds`."""
        until = time.monotonic() + seconds
        while (descriptor := self._lock_file()) is None:
            if time.monotonic() >= until:
                raise TimeoutError(
                    f"another process has been writing into '{self._folder}' for {seconds:g} s"
                )
            time.sleep(FIRST_WAIT)
        try:
            for path in self._left_over() if descriptor != _NO_LOCKS else ():
                path.unlink(missing_ok=True)
            yield
        finally:
            if descriptor != _NO_LOCKS:
                _unlock(descriptor)

    def _lock_file(self) -> int | None:
        try:
            return _try_lock(self._folder / _LOCK)
        except OSError:
            return _NO_LOCKS  # a file system without locks; if the folder cannot be written, writing says so


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check_folder(folder)


class _FolderNotPrivate(AuthError, PermissionError):
    """Other users can put files into a folder of tokens; the message says what to do."""


def _check_folder(folder: Path) -> None:
    """Raise `PermissionError` for a folder in which other users can put files.

    On Windows, a file has the access list of its folder: that of the profile of a user lets in nobody else but administrators.
    """
    found = folder.stat()
    if HERE.belongs_to_another(found, except_root=True):
        raise _FolderNotPrivate(
            f"the folder '{folder}' belongs to another user: keep tokens in one of your own"
        )
    if HERE.is_written_by(stat.S_IWGRP | stat.S_IWOTH, found):
        shown = shlex.quote(str(folder))
        raise _FolderNotPrivate(f"other users can write into the folder '{folder}': run `chmod 700 {shown}`")


# -- locks between processes -------------------------------------------------------------------------------


async def _locked(path: Path) -> int:
    """Take the lock of a file and return its descriptor; attempts run in a thread, so that none blocks the loop."""
    loop, wait = asyncio.get_running_loop(), FIRST_WAIT
    while True:
        attempt = loop.run_in_executor(None, _try_lock, path)
        try:
            descriptor = await asyncio.shield(attempt)
        except asyncio.CancelledError:
            attempt.add_done_callback(_give_back)
            raise
        if descriptor is not None:
            return descriptor
        await asyncio.sleep(wait)
        wait = min(2 * wait, MAX_WAIT)


def _give_back(attempt: asyncio.Future[int | None]) -> None:
    """Unlock what a cancelled attempt has locked."""
    if (
        not attempt.cancelled()
        and attempt.exception() is None
        and (descriptor := attempt.result()) is not None
    ):
        _unlock(descriptor)


def _try_lock(path: Path) -> int | None:
    """Lock a file, which is created in its folder, and return its descriptor; None if another has locked it."""
    _make_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        HERE.lock(descriptor)
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError | PermissionError):  # of POSIX and of Windows
            return None
        raise
    return descriptor


def _unlock(descriptor: int) -> None:
    """Unlock and close a file."""
    try:
        HERE.unlock(descriptor)
    finally:
        os.close(descriptor)


# -- the stores --------------------------------------------------------------------------------------------


class DiskTokens(KeptTokens):
    """Stores tokens and registrations in files that only their owner can read: `OAuth(store=DiskTokens("tokens"))`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Set the folder, which is created with the first record. Calls raise `OSError` if files cannot be written."""
        super().__init__(_Folder(Path(folder)), SERVICE, Path(folder))


def keys_on_disk(folder: Path) -> set[TokenKey]:
    """Return the keys of the tokens that `DiskTokens` keep in a folder. Raises `OSError` if it cannot be read."""
    store = _Folder(folder)
    records = (_parsed(Tokens, store.get_password(SERVICE, name)) for name in store.names())
    keys = (record[0] for record in records if record is not None)
    return {TokenKey(*key) for key in keys if len(key) == len(TokenKey._fields)}


class KeyringTokens(KeptTokens):
    """Stores tokens and registrations in the keyring of the system: `OAuth(store=KeyringTokens())`."""

    def __init__(self, service: str = SERVICE, *, backend: Keyring | None = None) -> None:
        """Set the name of the service in the keyring, and the `backend` of the library `keyring`; None: its default.

        Lock files, which are empty, are kept in the user's configuration folder of `mcprev`.

        Raises `MissingExtra` if `keyring` is not installed (`pip install 'mcprev[keyring]'`). Calls raise the errors of
        `keyring`.
        """
        if backend is None:
            try:
                backend = cast("Keyring", import_module("keyring"))
            except ImportError as error:
                raise MissingExtra("storing tokens in the keyring", "keyring", "keyring") from error
        super().__init__(backend, service, HERE.config_folder() / "locks")
