"""Several verifiers of bearer tokens as one."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

from mcprev.auth.bearer import Verify
from mcprev.callbacks import finished
from mcprev.transports.http.server.access import Access, InvalidToken


class AnyVerifier:
    """Verifies tokens with the first of several verifiers that accepts them: `Bearer(AnyVerifier(first, second), ...)`.

    The subject of a token becomes `subject@issuer` if its verifier has an issuer, also if it is the only one that has, because
    two verifiers may give the same name to different people. Subjects of verifiers without an issuer, such as functions, stay
    as they are; a token whose subject looks as if it were of one of the issuers is refused. Only if all verifiers have the
    same issuer, no subject changes.
    """

    def __init__(self, *verifiers: Verify) -> None:
        """Set the verifiers, in the order in which they are tried.

        Raises `ValueError` for fewer than two, and for an `IntrospectionVerifier` without `issuer`.
        """
        # One that stands for several is taken apart, so that each issuer has a suffix of its own.
        verifiers = tuple(one for each in verifiers for one in getattr(each, "verifiers", (each,)))
        self.verifiers: tuple[Verify, ...] = verifiers
        """The verifiers; none of them is an `AnyVerifier`."""
        if len(verifiers) < 2:
            raise ValueError("pass at least two verifiers")
        if any(getattr(each, "issuers", ()) is None for each in verifiers):
            raise ValueError(
                "an IntrospectionVerifier requires `issuer` if it is used with others, to distinguish subjects"
            )
        names = [getattr(each, "issuers", None) or () for each in verifiers]
        self.issuers: tuple[str, ...] = tuple(dict.fromkeys(name for found in names for name in found))
        """The issuers of all verifiers, which a `Bearer` names to clients."""
        several = len({found[:1] for found in names}) > 1
        self._verifiers = [
            (verify, f"@{found[0]}" if several and found else "")
            for verify, found in zip(verifiers, names, strict=True)
        ]
        self._suffixes = tuple(suffix for _, suffix in self._verifiers if suffix)

    def seen_at(self, host: str | None) -> None:
        """Pass the host by which the server was reached to the verifiers."""
        for verify, _ in self._verifiers:
            seen_at = getattr(verify, "seen_at", None)
            if seen_at is not None:
                seen_at(host)

    async def __call__(self, token: str) -> Access:
        """Return the content of a token.

        Raises `InvalidToken` with the reasons of all verifiers, or the error of a verifier that could not decide.
        """
        reasons: list[str] = []
        failure: Exception | None = None
        for verify, suffix in self._verifiers:
            try:
                found: Access | None = await finished(
                    cast("Awaitable[Access | None] | Access | None", verify(token))
                )
            except InvalidToken as refused:
                reasons.append(str(refused))
            except Exception as error:  # noqa: BLE001 - another verifier may know the token
                failure = error
            else:
                if found is None:
                    reasons.append("no reason given")
                elif suffix:
                    return found.with_subject(f"{found.subject}{suffix}")
                elif found.subject.endswith(self._suffixes):
                    reasons.append("its subject ends like those of another issuer")
                else:
                    return found
        if failure is not None:
            raise failure
        raise InvalidToken("; ".join(reasons))
