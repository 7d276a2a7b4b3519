"""How authorization over HTTP differs between revisions: the values of the column `auth` of the revision table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthProfile:
    """How a client finds its authorization server over HTTP, and what it asks it for.

    No field turns a check on or off: the checks are the same at every revision, because the peer chooses the revision.
    """

    resource_metadata: bool = False  # AUTH-3, AUTH-4
    """Whether the server's metadata names its authorization server; otherwise that is the server's own origin."""
    openid: bool = False  # AUTH-6
    """Whether OpenID Connect discovery is tried besides RFC 8414."""
    client_documents: bool = False  # AUTH-12
    """Whether a client id can be the URL of the client's metadata document."""
    application_type: bool = False  # AUTH-13
    """Whether a registration names its `application_type`."""


AT_ORIGIN: Final = AuthProfile()
NAMED: Final = AuthProfile(resource_metadata=True)
ADVERTISED: Final = replace(NAMED, openid=True, client_documents=True)
TYPED: Final = replace(ADVERTISED, application_type=True)
