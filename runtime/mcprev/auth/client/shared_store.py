"""The use of a token store that other processes may share: its lock, its bounds and its failures (AUTH-14, AUTH-22).

Tokens and registrations are used first and stored afterwards: a store that fails is logged, and costs nobody the tokens
that were just issued. What this process knows takes precedence over the older records that the store may still return:
a write failed, or shows late. Only the record that was found invalid is deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar, cast

from mcprev.auth.client.store import Registration, TokenKey, Tokens, TokenStore
from mcprev.callbacks import finished
from mcprev.error_text import raised_at
from mcprev.errors import AuthError, McpError, one_line
from mcprev.transports.http.urls import printable

STORE: Final = 60.0
"""The maximum time of one call to a store, and of the wait for its lock, in seconds."""
R = TypeVar("R", Tokens, Registration)
K = TypeVar("K", TokenKey, str)
MAX_OLD: Final = 8
"""The number of replaced records that are remembered for each key."""
logger: Final = logging.getLogger("mcprev.auth")


@dataclass
class _Known(Generic[R]):
    """The last state of a record that this process has read or written."""

    record: R | None = None
    """None if there is none."""
    old: tuple[R, ...] = ()
    """The records that it has replaced, the latest last; to use their refresh tokens again looks like a theft."""
    is_stored: bool = True
    """Whether the store has it, as far as is known."""

    def then(self, record: R | None, *, is_stored: bool) -> _Known[R]:
        """Return the state after a record has taken the place of this one."""
        old = list(self.old)
        if self.record is not None and self.record != record:
            old.append(self.record)
        return _Known(record, tuple(old[-MAX_OLD:]), is_stored)


class SharedStore:
    """A `TokenStore` with bounds. Failures to write are logged, without the texts of errors, which may hold secrets."""

    def __init__(self, store: TokenStore) -> None:
        self.store: TokenStore = store
        self._tokens: dict[TokenKey, _Known[Tokens]] = {}
        self._registrations: dict[str, _Known[Registration]] = {}

    @asynccontextmanager
    async def lock(self, issuer: str) -> AsyncGenerator[None, None]:
        """Hold the lock of an issuer, if the store has locks; a lock that fails is logged.

        Raises `AuthError` if others hold it for too long.
        """
        make, held = getattr(self.store, "lock", None), AsyncExitStack()
        try:
            if make is not None:
                async with asyncio.timeout(STORE):
                    await held.enter_async_context(await finished(make(issuer)))
        except TimeoutError:
            raise AuthError(
                f"another process has held the lock of the stored tokens of {printable(issuer)} for {STORE:g} s: stop that process, or try again"
            ) from None
        except Exception as error:  # noqa: BLE001 - the user's store may raise anything
            logger.warning(
                "the token store cannot be locked (%s): processes that share it may use a refresh token twice",
                _reason(error),
            )
        try:
            yield
        finally:
            try:
                await held.aclose()
            except Exception as error:  # noqa: BLE001 - as above; the tokens in hand are good
                logger.warning("the token store cannot be unlocked (%s)", _reason(error))

    @asynccontextmanager
    async def lock_if_free(self, issuer: str) -> AsyncGenerator[None, None]:
        """Hold the lock of an issuer; go on without it, which is logged, if others hold it for too long."""
        async with AsyncExitStack() as held:
            try:
                await held.enter_async_context(self.lock(issuer))
            except AuthError as error:
                logger.warning("%s", error)
            yield

    async def tokens(self, key: TokenKey) -> Tokens | None:
        """Return the latest tokens. Raises `AuthError` if they cannot be read, and none are known."""
        return await _read(self._tokens, key, lambda: self.store.tokens(key))

    async def keep_tokens(self, key: TokenKey, tokens: Tokens, *, replaces: Tokens | None = None) -> None:
        """Store tokens; `replaces` are those whose refresh token they have used up."""
        if (
            await _write(self._tokens, key, tokens, lambda: self.store.keep_tokens(key, tokens))
            or replaces is None
        ):
            return
        if replaces.refresh_token != tokens.refresh_token:
            # Another process that uses the old refresh token would look like a thief.
            known = self._tokens[key]
            await _write(self._tokens, key, None, lambda: self.store.keep_tokens(key, None))
            self._tokens[key] = known

    async def forget_tokens(self, key: TokenKey, used: Tokens) -> None:
        """Delete these tokens, unless others have taken their place."""
        if await self.tokens(key) == used:
            await _write(self._tokens, key, None, lambda: self.store.keep_tokens(key, None))

    async def registration(self, issuer: str) -> Registration | None:
        """Return the latest registration. Raises `AuthError` if it cannot be read, and none is known."""
        return await _read(self._registrations, issuer, lambda: self.store.registration(issuer))

    async def keep_registration(self, issuer: str, registration: Registration) -> None:
        """Store a registration."""
        keep = self.store.keep_registration
        await _write(self._registrations, issuer, registration, lambda: keep(issuer, registration))

    async def forget_registration(self, issuer: str, used: Registration) -> None:
        """Delete this registration, unless another has taken its place."""
        if await self.registration(issuer) == used:
            await _write(
                self._registrations, issuer, None, lambda: self.store.keep_registration(issuer, None)
            )


async def _read(
    known: dict[K, _Known[R]], key: K, read: Callable[[], Awaitable[R | None] | R | None]
) -> R | None:
    """Return what a store has, or what is known if that is newer or the store fails. Raises `AuthError`."""
    last, found, failure = known.get(key) or _Known(), None, ""
    try:
        async with asyncio.timeout(STORE):
            found = await finished(read())
        found = None if found is None else _comparable(found)
    except Exception as error:  # noqa: BLE001 - the user's store may raise anything
        failure = f"the token store cannot be read ({_reason(error)})"
    if failure:
        if last.record is None:
            raise AuthError(failure)
        logger.warning("%s", failure)
        return last.record
    if not last.is_stored if found is None else found in last.old:
        return last.record
    known[key] = last.then(found, is_stored=True)
    return found


async def _write(
    known: dict[K, _Known[R]], key: K, record: R | None, write: Callable[[], Awaitable[None] | None]
) -> bool:
    """Write to a store; return whether that succeeded."""
    known[key] = (known.get(key) or _Known()).then(record, is_stored=False)  # also if it is cancelled
    try:
        async with asyncio.timeout(STORE):
            await finished(write())
    except Exception as error:  # noqa: BLE001 - the user's store may raise anything
        logger.warning(
            "the token store cannot be written (%s): the next process may have to log in",
            _reason(error),
        )
        return False
    known[key] = replace(known[key], is_stored=True)
    return True


def _reason(error: Exception) -> str:
    """Return why a store failed: the text of an error of the runtime, which has no secrets; of any other one, where it was raised."""
    return one_line(error) if isinstance(error, McpError) else raised_at(error)


def _comparable(record: R) -> R:
    """Return a record with tuples, as stores may return lists."""
    found: Tokens | Registration = record
    if isinstance(found, Tokens):
        found = replace(found, scopes=None if found.scopes is None else tuple(found.scopes))
    else:
        found = replace(found, redirect_uris=tuple(found.redirect_uris))
    return cast("R", found)
