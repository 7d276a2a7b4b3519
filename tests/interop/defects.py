"""What peers cannot do or do otherwise, and why: the one table of it.

A case in it is tried all the same and has to fail: one that passes is a stale entry, which fails the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Final

from interop.peers import Peer


@dataclass(frozen=True, slots=True)
class Defect:
    """A case, the peers with which it cannot pass, and what is the matter with these."""

    peers: tuple[str, ...]
    """Patterns of the ids of peers, as tests have them: `*-mcp1.8.1-*`, `2025-*-typescript*-http`."""
    case: str
    """A test: its module and name, as in `test_our_client::test_roots_are_told`."""
    cause: str

    def concerns(self, peer: Peer) -> bool:
        """Whether a peer has it."""
        return any(fnmatch(peer.id, pattern) for pattern in self.peers)


CLIENT: Final = "test_our_client::"
SERVER: Final = "test_our_server::"
DECORATED: Final = "test_decorated_servers::"
NO_SUBSCRIPTIONS: Final = "its clients have no subscriptions at revisions without sessions"
DIES_OF_CANCELLING: Final = Defect(
    ("*-mcp1.8.1-*", "*-mcp1.9.4-*", "*-mcp1.10.1-*"),
    f"{CLIENT}test_a_session_goes_on_after_cancelling",
    "cancelling a request ends its servers, with an unhandled error",
)
DEFECTS: Final = (
    DIES_OF_CANCELLING,
    Defect(
        ("*-mcp1.8.1-*",),
        f"{CLIENT}test_lists_are_read_page_by_page",
        "its servers do not get to see the cursor of a request",
    ),
    Defect(
        ("*-mcp1.8.1-*", "*-mcp1.9.4-*"),
        f"{CLIENT}test_servers_that_answer_with_json",
        "deleting a session whose responses are JSON ends its servers, with an unhandled error",
    ),
    Defect(
        ("*-mcp1.8.1-*",),
        f"{CLIENT}test_servers_without_sessions",
        "a request that it does not know ends its servers without sessions",
    ),
    Defect(
        ("*-mcp1.8.1-*",),
        f"{SERVER}test_tools_are_listed_page_by_page",
        "its clients put the cursor beside the params of a request",
    ),
    Defect(
        ("*-mcp1.8.1-*",),
        f"{SERVER}test_resources_are_listed_page_by_page",
        "its clients put the cursor beside the params of a request",
    ),
    Defect(
        ("*-mcp1.23.3-*",),
        f"{SERVER}test_the_client_samples_with_tools",
        "its clients have no way to declare that they sample with tools",
    ),
    Defect(
        ("*-typescript1.0.4-*",),
        f"{CLIENT}test_both_sides_learn_who_the_other_is",
        "its servers have no instructions",
    ),
    Defect(
        ("*-typescript1.0.4-*", "*-typescript1.12.3-*", "*-typescript1.17.5-*"),
        f"{CLIENT}test_a_missing_resource_is_told_as_such",
        "its servers drop the data of an error",
    ),
    Defect(
        ("*-typescript1.*-stdio",),
        f"{CLIENT}test_the_client_reports_progress_too",
        "its servers drop progress that they read together with the response, which stdio joins",
    ),
    Defect(
        ("2025-*-typescript*-stdio", "2026-*-typescript*-stdio"),
        f"{SERVER}test_progress_is_told_with_what_the_revision_has",
        "its clients drop progress that they read together with the response, which stdio joins",
    ),
    Defect(
        ("2025-11-25-typescript2.*",),
        f"{SERVER}test_a_missing_resource_has_the_code_of_the_revision",
        "its clients turn the code -32002 of a missing resource into -32602",
    ),
    Defect(
        ("*-fastmcp*",),
        f"{DECORATED}test_tools_report_and_log",
        "its servers log an object with the text as its member `msg`",
    ),
    Defect(
        ("2026-*-fastmcp4.*",),
        f"{DECORATED}test_tools_ask_for_forms",
        "its servers' `Context.elicit` is refused at revisions without requests of servers",
    ),
    Defect(
        ("2026-*-fastmcp4.*",),
        f"{SERVER}test_changes_are_told_on_streams",
        NO_SUBSCRIPTIONS,
    ),
    Defect(
        ("2026-*-fastmcp4.*",),
        f"{SERVER}test_changes_are_told_where_calls_are_answered_with_json",
        NO_SUBSCRIPTIONS,
    ),
    Defect(
        ("2025-*-fastmcp*",),
        f"{SERVER}test_the_user_refuses_to_sample",
        "its clients respond to any error of a sampling handler with -32603",
    ),
    Defect(
        ("2026-*-fastmcp4.*",),
        f"{SERVER}test_what_is_not_asked_for_is_not_logged",
        "its clients ask for the logs of every call, from the level debug on",
    ),
)


def known(peer: Peer, case: str) -> Defect | None:
    """The defect for which a case cannot pass with a peer, if there is one."""
    return next((defect for defect in DEFECTS if defect.case == case and defect.concerns(peer)), None)
