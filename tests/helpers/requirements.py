"""What the runtime has to do, a row for each requirement, and `req`, the mark of the tests that check it.

`test_requirements.py` fails for a requirement without a test, for a revision of its range at which no test of
it runs, for a mark of an unknown requirement and for a test without a mark. A test is marked in one of these
ways:

    @req("BASE-5")
    def test_x(row: Revision): ...          # or `revision: Revision`, or `revision: str` for its name

runs once for each revision in the range of the requirement (of all of them, when several are named), unless the
test is parametrised with `row` or `revision` by itself, which then says at which revisions it runs. A test whose
parameters are named otherwise runs at the revisions that its parametrisation's ids name.

    @req("MOD-3")
    def test_y(): ...

is enough for a requirement of one revision only, or of those from E on: E is the latest, and counts for them all. A test that has no revision to run at says where it counts:

    @req("BASE-10", everywhere=True)        # the revision plays no part: bytes, tables, rules
    @req("BASE-9", at=E)                    # it is all about one revision, or some: at=(C, D)

Tests that are skipped under a condition do not count, and a test that is always skipped must not be marked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest

from helpers import named
from helpers.named import GONE, NAMED, ORDER, SINCE_E, mentions_gone, names_gone
from mcprev.revisions import Revision, revision_named

A, B, C, D, E = named.A, named.B, named.C, named.D, named.E
NAMES: Final = named.NAMES
CHECK_HTTP: Final = True
"""Whether requirements that need HTTP have to have tests."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing the runtime has to do."""

    id: str
    span: tuple[str, ...]
    """The names of the revisions that its range is about, whether or not the table has them still."""
    who: str
    """client, server, both, or seam: what the runtime owes its users whatever the peers speak."""
    level: str
    """M(UST), MN (MUST NOT), S(HOULD), SN (SHOULD NOT), may, or - where the specification says nothing."""
    says: str
    http: bool
    """Whether it can be seen over HTTP only."""

    @property
    def revisions(self) -> tuple[str, ...]:
        """The names of the revisions it holds at."""
        return tuple(name for name in NAMES if name in self.span)


def req(*ids: str, everywhere: bool = False, at: str | Sequence[str] = ()) -> pytest.MarkDecorator:
    """Mark a test as a check of requirements; the module's text says which revisions it counts for."""
    unknown = [id_ for id_ in ids if id_ not in REQUIREMENTS]
    if unknown or not ids:
        raise ValueError(f"no such requirement: {', '.join(unknown) or 'none is named'}")
    named = (at,) if isinstance(at, str) else tuple(at)
    if set(named) - set(NAMES) - GONE:
        raise ValueError(f"no such revision: {named}")
    return pytest.mark.req(*ids, everywhere=everywhere, at=named)


_TABLE: Final = """
BASE-1     A-   both   M   -    every message says it is JSON-RPC 2.0, in UTF-8
BASE-2     A-   both   M   -    ids are strings or integers; null, booleans and fractions are none
BASE-3     A-D  both   MN  -    an id comes back within a session
BASE-4     E-   client MN  -    an id is that of a request in flight; later it may come back
BASE-5     A-   both   M   -    an answer has the id as it was sent, of the same kind
BASE-6     A-   both   M   -    a response has a result or an error with code and message, never both
BASE-7     A-   both   M   -    an error for an unreadable id says null (to C) or nothing (from D); both are read
BASE-8     A-   both   MN  -    notifications have ids or are answered
BASE-9     A-   both   M   -    unknown requests are refused, unknown notifications ignored
BASE-10    A-   both   M   -    what is no JSON and what is no message have codes, and serving goes on
BASE-11    E-   server MN  -    the server sends requests
BASE-12    E-   client MN  -    the client sends responses; one that comes has no effect
BASE-13    E-   server M   -    every result says its type
BASE-14    E-   client M   -    a result without type is complete, one of an unknown type invalid
BASE-15    E-   client M   -    extensions add the result types that are accepted
BASE-16    A-   both   S   -    1.0 is read as an id or a progress, and never written
BASE-17    A-   both   -   -    unknown members harm nobody and survive
BATCH-1    B    both   M   -    arrays of messages are received
BATCH-2    B    both   may -    we send an array only to answer one
BATCH-3    B    client MN  -    initialize is part of an array
BATCH-4    B    server M   http an array gets 202, one array or a stream, depending on what is in it
BATCH-5    B    both   M   -    an empty array and each bad member have errors of their own
BATCH-6    ACDE- both  -   -    an array is no message
BATCH-7    B    server M   -    members are served independently of each other
LIFE-1     A-D  client M   -    the first thing said is initialize
LIFE-2     A-D  client M   -    it asks for the client's latest revision of this era
LIFE-3     A-D  server M   -    the answer is the version asked for, or the server's latest of the era
LIFE-4     A-D  client S   -    an answer that is not supported ends the connection with both versions named
LIFE-5     A-D  client M   -    success is confirmed
LIFE-6     A-D  client SN  -    anything but ping goes out before the answer
LIFE-7     A-D  server SN  -    anything but ping and logging goes out before the confirmation
LIFE-8     A-D  server -   -    requests are served from the answer on; before initialize they are refused
LIFE-9     A-B  both   S   -    only what was declared is used
LIFE-10    C-D  both   M   -    what was not declared fails before it is sent and is refused when it comes
LIFE-11    A-D  server M   -    capabilities are what is served
LIFE-12    A-D  client M   -    so they are for clients, with modes where there are any
LIFE-13    A-D  both   -   -    unknown capabilities are kept
LIFE-14    A-D  server -   -    instructions, and of names what the revision knows
LIFE-15    A-D  server -   -    a session is opened once
LIFE-16    A-   both   S   -    the end is the transport's end; no message says so
LIFE-17    A-D  client MN  -    initialize is cancelled
LIFE-18    A-D  both   S   -    every request has time limits; the total stands whatever is reported
MOD-1      E-   client M   -    every request says version and capabilities
MOD-2      E-   client S   -    and who sends it
MOD-3      E-   server M   -    a request that does not is refused
MOD-4      E-   server M   -    so is one of another version, with all that are served
MOD-5      E-   server MN  -    what was said before on the connection counts
MOD-6      E-   server M   -    a missing capability is an error that names it
MOD-7      E-   server S   -    every result says who answers, unless its handler did
MOD-8      E-   both   SN  -    behaviour depends on the peer's name
MOD-9      E-   server M   -    discovery is served
MOD-10     E-   client S   -    a refused version is followed by a mutual one, each tried once
MOD-11     E-   server MN  -    lists differ by connection
MOD-12     E-   server S   -    tools are listed in the same order each time
MOD-13     E-   client SN  -    a conversation's lifetime is that of a process
MOD-14     E-   server -   -    methods of sessions do not exist
MOD-15     E-   server S   -    a server without sessions answers initialize with its versions
MOD-16     E-   both   M   -    an extension of one side only is not used
MOD-17     E-   both   M   -    extensions have prefixed names
NEG-1      E-   client S   -    the first request is discovery
NEG-2      A-   client M   -    the result leads to a mutual version, of either era
NEG-3      A-   client M   -    an error that only modern servers know keeps to them, unless it names old versions only
NEG-4      A-D  client MN  -    one code alone leads to a handshake: anything else does, an exit included
NEG-5      A-   client -   -    probe and handshake have their own deadlines; a slow modern server is asked again
NEG-6      A-   client S   http what comes of the first POST tells the era and the transport
NEG-7      A-   client S   -    the verdict can be kept, and is dropped when contradicted
NEG-8      A-   server -   -    the opener picks the engine
NEG-9      A-   server may -    both eras share a pipe
NEG-10     B-D  server M   http a POST without a version is the session's, or of the second revision
NEG-11     B-D  server -   http a version header beside initialize is not looked at
NEG-12     A-   client -   -    modes, pins and lists; a discovery from before saves asking
NEG-13     A-   both   -   -    the allowed revisions are configured; unknown ones are never near known ones
META-1     A-   both   -   -    any key is tolerated in any _meta
META-2     C-   both   M   -    the grammar of keys
META-3     C-   both   -   -    the prefixes that are reserved
META-4     C-   both   MN  -    something is assumed about values at reserved keys
META-5     D-   both   S   -    prefixes of vendors are reversed domain names
META-6     E-   both   M   -    trace context is in the format of W3C
META-7     E-   server M   -    everything on a listen stream bears its id
META-8     D    both   M   -    messages of a task bear its id
META-9     A-   both   -   -    the keys of a caller survive ours
ERR-1      A-   both   -   -    the codes of JSON-RPC; what a handler raises is not shown
ERR-2      A-   server S   -    a missing resource has the code of the revision
ERR-3      D-   server M   -    the code that asks for a URL is used where it exists, with what it needs
ERR-4      E-   server MN  -    undefined codes of the reserved range are sent
ERR-5      A-   both   -   -    what happens here is no JSON-RPC error
ERR-6      E-   server M   http the status that goes with a code
ERR-7      A-   client -   http an error body is read whatever the status
ERR-8      B-D  server may http an error never is an empty success
ERR-9      A-D  client S   -    the codes with which clients refuse what servers ask
STDIO-1    A-   both   M   -    a message is a line, and only a line feed ends it
STDIO-2    A-   server MN  -    anything else reaches stdout
STDIO-3    A-   client MN  -    anything else reaches the server's stdin; noise that comes back is skipped
STDIO-4    A-   client may -    stderr is read in any case and is no error
STDIO-5    A-   client S   -    stdin is closed, then the tree of processes is ended, all within bounds
STDIO-6    A-   server S   -    the end of stdin ends the server
STDIO-7    E-   client S   -    a crashed server is started again, and its streams are opened again
STDIO-8    E-   client M   -    cancelling is a notification, and nothing follows it
STDIO-9    A-   both   -   -    lines have a limit and large ones do not block reading
STDIO-10   A-   client -   -    the environment is an allow-list; there is no shell; a missing command is told
STDIO-11   E-   both   S   -    any stream of bytes will do
SSE-1      A    server M   http two endpoints
SSE-2      A    server M   http the stream first says where to post
SSE-3      A    client M   http that is where everything is posted, and it has the stream's origin
SSE-4      A    server -   http a POST gets 202, its answer comes on the stream
SSE-5      A    server M   http the origin is checked
SSE-6      A    server -   http a session ends with its stream
SSE-7      A-   server may http both transports stand side by side
SSE-8      A    client -   http losing the stream fails every request
HTTP-1     B-D  server M   http one endpoint
HTTP-2     B-   server M   http the origin is checked wherever the server listens
HTTP-3     B-   server S   http local servers listen on the loopback only
HTTP-4     B-   client M   http both media types are accepted
HTTP-5     B-D  client M   http a POST for each message
HTTP-6     B-D  server M   http what needs no answer gets 202 and nothing else
HTTP-7     B-D  server M   http requests are answered with JSON or a stream; clients read both
HTTP-8     B-D  server S   http a stream ends with the response
HTTP-9     B-D  both   SN  http a broken connection cancels
HTTP-10    B-D  client may http a GET opens a stream, or tells there is none
HTTP-11    B-D  server MN  http responses come on it
HTTP-12    B-D  server MN  http a message goes out twice
HTTP-13    B-D  client may http several streams
HTTP-14    B-D  server may http the ids of events are unique in a session
HTTP-15    B-D  client S   http a stream is taken up where it broke
HTTP-16    B-D  server MN  http another stream's messages are sent again
HTTP-17    D    server S   http a stream begins with an empty event
HTTP-18    D    client M   http the time to wait before coming back is kept
HTTP-19    B-D  server may http sessions have ids that nobody guesses
HTTP-20    B-D  client M   http they are sent along
HTTP-21    B-D  server S   http a request without one is refused first of all
HTTP-22    B-D  server M   http an unknown one is not found
HTTP-23    B-D  client M   http then a new session is opened
HTTP-24    B-D  client S   http a session is deleted at the end
HTTP-25    C-D  client M   http the version is a header
HTTP-26    C-D  server S   http without it the second revision is meant; a wrong one is refused
HTTP-27    B-D  server -   http idle sessions end, and there are not too many
HTTP-28    B-D  server -   http a session belongs to whoever opened it
HTTP-29    B-D  client -   http a stream that ends too early fails its request
HTTP-30    B-   server -   http what browsers need, if wanted
HTTP-31    B-   server -   http bodies have a limit
HTTP-32    B-D  server -   http where there is no stream nothing can be asked on it
HTTPM-1    E-   server M   http POST only, without sessions
HTTPM-2    E-   client M   http one message each, and no response
HTTPM-3    E-   server M   http notifications get 202
HTTPM-4    E-   server M   http what is on a stream belongs to its request
HTTPM-5    E-   server S   http streams are kept from buffering and from falling asleep
HTTPM-6    E-   server M   http closing the stream cancels
HTTPM-7    E-   client M   http a broken stream loses its request
HTTPM-8    E-   server -   http nothing is resumed
HTTPM-9    E-   server -   http the status stays open until something is to be streamed
HDR-1      E-   client M   http version header and body say the same
HDR-2      E-   client M   http method and name are headers
HDR-3      E-   server M   http headers and body are compared
HDR-4      E-   both   M   http names of headers have no case
HDR-5      E-   client M   http how values are written that are no header values
HDR-6      E-   client M   http arguments that the schema marks are headers
HDR-7      E-   client M   http tools that mark them wrongly are left out
HDR-8      E-   server M   http these headers are checked too
HDR-9      E-   client S   http a mismatch is answered by listing tools again
HDR-10     E-   server SN  http secrets are marked
HDR-11     E-   client -   http a tool's schema is known before it is called
CANC-1     A-D  both   M   -    only requests that are in progress are cancelled, by whoever sent them
CANC-2     A-D  both   S   -    the work stops and is not answered
CANC-3     A-   both   S   -    cancelling nothing has no effect, nor has a late answer
CANC-4     D    both   M   -    tasks are cancelled by a request of their own
CANC-5     E-   server MN  -    the server cancels, except a listen stream
CANC-6     A-   both   S   -    the reason is logged
CANC-7     A-   client -   -    a caller that gives up, or waits too long, tells the server
PROG-1     A-   both   M   -    tokens are unique, and of requests in progress
PROG-2     A-   both   M   -    progress increases, and ends with the request
PROG-3     A-   both   -   -    clients report too, as long as servers ask
PROG-4     D-   both   M   -    a task's token lives as long as the task
PROG-5     A-   both   S   -    tokens are kept track of
PING-1     A-D  both   M   -    answered at once, whatever else goes on
PING-2     A-D  both   S   -    sent now and then, if wanted
TIME-1     B-   both   S   -    time limits for each request, and one for the whole
MRTR-1     E-   server may -    three methods may ask for input
MRTR-2     E-   server M   -    an interim result has requests or a state
MRTR-3     E-   server MN  -    it asks for what the client cannot do
MRTR-4     E-   server M   -    the state comes back sealed
MRTR-5     E-   client M   -    the request is sent again with the answers and the state, untouched
MRTR-6     E-   client may -    without questions it is sent again at once, a few times
MRTR-7     E-   server S   -    missing answers are asked for again
MRTR-8     E-   server MN  -    the server waits for the client to come back
MRTR-9     E-   both   MN  -    what came of such requests is cached
MRTR-10    E-   client -   -    declined input ends the call
MRTR-11    A-D  server -   -    the same handler serves sessions
MRTR-12    A-   client -   -    the same callbacks answer both
SUB-1      A-D  server S   -    changes are told to those who subscribed, if that was declared
SUB-2      E-   server M   -    a listen stream begins by saying what it will carry
SUB-3      E-   server MN  -    it carries anything else
SUB-4      E-   server S   -    it ends with a result
SUB-5      E-   client M   -    streams are told apart, and opened again
SUB-6      E-   both   may -    there may be several
SUB-7      A-   client -   -    one way to listen at every revision
SUB-8      A-   server -   -    one way to tell
SUB-9      E-   server M   -    streams of tasks
CACHE-1    E-   server M   -    six results say how long they are good
CACHE-2    E-   client S   -    for so long they are not asked for again
CACHE-3    E-   client SN  -    nothing is polled
CACHE-4    E-   server M   -    all pages have the same scope
CACHE-5    A-D  client -   -    results of sessions are good for no time
PAGE-1     A-   client M   -    cursors are sent back as they came
PAGE-2     A-   server S   -    a bad cursor is refused
PAGE-3     A-   client M   -    iterating ends
COMP-1     A-   server M   -    a hundred values at most; declared from the second revision on
COMP-2     C-   client S   -    what is known already goes along
COMP-3     B-   server S   -    codes of refusals
LOG-1      A-   server M   -    declared by whoever logs, in eight levels
LOG-2      A-D  server S   -    a level for the session
LOG-3      E-   server MN  -    logging for a request that did not ask for it
LOG-4      A-   server MN  -    secrets in logs
LOG-5      A-   both   -   -    one way to log, one way to say from which level on
TOOL-1     A-   server M   -    declared, listed in pages; an unknown one is invalid
TOOL-2     A-   server -   -    invalid arguments: an error to C, a result from D
TOOL-3     A-   server M   -    arguments fit the schema
TOOL-4     C-   server M   -    so do structured results
TOOL-5     C-   server S   -    which are there as text, too
TOOL-6     C-   client S   -    and are checked
TOOL-7     D-   server S   -    names and schemas are well formed
TOOL-8     D-   client S   -    failures of tools are results
TOOL-9     B-   client M   -    annotations are not to be trusted
TOOL-10    D    server M   -    which tools run as tasks
TOOL-11    A-   server S   -    changes of the list are told where that was declared
RES-1      A-   server M   -    URIs are checked, binaries in base64
RES-2      E-   server may -    several contents, but not none
RES-3      C-   both   M   -    any scheme
RES-4      A-   server -   -    templates, and which one matches
PROM-1     A-   server S   -    unknown prompts and missing arguments are invalid
PROM-2     A-   server M   -    what prompts hold is well formed
ROOT-1     A-   client M   -    roots are files, and their changes are told in sessions
ROOT-2     A-D  client S   -    who has none refuses
SAMP-1     A-   client -   -    only who has a callback samples, within the limit asked for
SAMP-2     D-   server MN  -    tools go to clients that did not declare them
SAMP-3     D-   both   M   -    uses of tools and their results stand together
SAMP-4     A-   both   -   -    lists of blocks where they exist
ELIC-1     C-   client M   -    declared, by modes from D on; nothing else is sent
ELIC-2     C-   server M   -    forms are flat
ELIC-3     C-   both   S   -    answers fit the form
ELIC-4     C-   server MN  -    secrets are asked for in forms
ELIC-5     D-   client MN  -    URLs are opened without being shown
ELIC-6     D-   server M   -    ids of URL elicitations, where they exist
ELIC-7     D-   client S   -    defaults are filled in
ELIC-8     D    client M   -    no mode means a form; an undeclared one is refused
ELIC-9     D-   server M   -    what is asked belongs to a user
TASK-1     D    both   M   -    declared
TASK-2     D    both   M   -    states and ids of tasks
TASK-3     D    both   M   -    which tools run as tasks
TASK-4     D    both   M   -    waiting for a task's result
TASK-5     D    both   M   -    unknown and ended tasks
TASK-6     D    both   M   -    what belongs to a task says so
TASK-7     D    both   M   -    a task belongs to who started it
TASK-8     D    both   S   -    how often to ask
TASKX-1    E-   server MN  -    tasks are for those who know the extension
TASKX-2    E-   server M   -    what a task says of itself
TASKX-3    E-   server M   -    updating and cancelling
TASKX-4    E-   client M   -    either answer will do
TASKX-5    E-   server M   -    codes and headers
TASKX-6    D-   server -   -    one way to run long, at every revision
SK-1       A-   server M   -    skills are listed, and each is had by its URI
SK-2       A-   server M   -    every folder of a skill is read
SK-3       A-   both   M   -    a skill is a folder with a SKILL.md, whose front matter has name and description
SK-4       A-   server S   -    URIs of skills begin with skill://
SK-5       A-   both   M   -    the last folder has the name of the skill, which obeys its rules
SK-6       A-   server S   -    SKILL.md is Markdown with the name and description of its skill
SK-7       A-   server S   -    names of the extension in _meta have its prefix
SK-8       A-   both   M   -    the entry has every file below the folder once, and none outside
SK-9       A-   both   M   -    files without digests are "dynamic", and nothing else is
SK-10      A-   server M   -    the entry has the front matter of the file
SK-11      A-   both   S   -    at most 512 files and 16 MiB
SK-12      A-   server M   -    what is not listed is had by its URI all the same
SK-13      A-   server MN  -    an entry is on two pages
SK-14      A-   server M   -    nested skills have entries of their own, and are in that around them
SK-15      A-   server M   -    folders have no slash at the end, and one level
SK-20      A-   client MN  -    skills are asked for before they are declared
SK-21      A-   client MN  -    a scheme makes a skill, or a list says what there is
SK-22      A-   client M   -    a skill is its server and its URI
SK-23      A-   client M   -    names of several origins are told apart
SK-24      A-   client M   -    digest and size are checked, and what differs is not used
SK-25      A-   client M   -    the front matter read is that of the entry
SK-26      A-   client M   -    the entry that was loaded holds, and no other file
SK-27      A-   client MN  -    files are read before they are asked for
SK-28      A-   client M   -    what is kept on disk is marked, and not mixed with local skills unasked
SK-29      A-   client MN  -    front matter of nested skills is acted on
SK-30      A-   client M   -    paths are relative to the folder of their SKILL.md
SK-31      A-   client MN  -    a listing of a folder adds to the entry
SK-32      A-   client MN  -    an entry that is not valid is loaded; a reason is given
SK-33      A-   client -   -    reading a SKILL.md as a resource loads no skill
SK-34      A-   client M   -    what a skill says is of its server, and allows nothing
JSCH-1     D-   both   M   -    dialects
JSCH-2     E-   both   MN  -    the network is asked for schemas
JSCH-3     E-   both   S   -    schemas have bounds
JSCH-4     A-   both   -   -    schemas of tools go through untouched
ICON-1     D-   client M   -    which icons are safe to load
AUTH-1     B-   server M   http codes of refusals
AUTH-2     B-   client M   http where the token goes
AUTH-3     B    client M   http where the authorization server is, to begin with
AUTH-4     C    server M   http metadata of the protected resource
AUTH-5     D-   server M   http where it is found
AUTH-6     C-   client M   http metadata of authorization servers
AUTH-7     E-   client M   http their issuer
AUTH-8     B-   client M   http proof keys
AUTH-9     C-   client M   http what the token is for
AUTH-10    C-   server M   http whether it is for this server
AUTH-11    C-   client S   http state is checked
AUTH-12    B-   client -   http how a client is registered
AUTH-13    E-   client M   http what sort of application it is
AUTH-14    E-   client M   http credentials belong to an issuer
AUTH-15    E-   client M   http the issuer of a response
AUTH-16    D-   server S   http scopes in challenges
AUTH-17    D-   client S   http scopes in requests
AUTH-18    E-   client -   http refreshing
AUTH-19    B-   client M   http only safe endpoints
AUTH-20    B    server M   http where users are sent back to
AUTH-21    E-   server M   http scopes that include others
AUTH-22    B-   client -   http where tokens are kept
AUTH-23    B-   client M   http what is checked does not depend on the revision that the peer chooses
AUTH-24    B-   client M   http a credential that is given in advance is for an issuer that is named
SEC-1      C-   client M   http no requests to places they must not reach
SEC-2      D-   client M   http only web addresses are opened
SEC-3      A-   server M   http pages of other sites do not get in
SEC-4      B-D  server MN  http sessions stand for users
SEC-5      E-   server MN  -    whoever has a state may use it
SEC-6      A-   both   S   -    sizes and numbers have limits
SEC-7      C-   seam   M   http consent for each client of a proxy
CONV-1     A-D  seam   -   -    audio
CONV-2     A-D  seam   -   -    links to resources
CONV-3     A-D  seam   -   -    structured content that is an object
CONV-4     A-D  seam   -   -    structured content of another kind
CONV-5     A-D  seam   -   -    output schemas of objects
CONV-6     A-D  seam   -   -    output schemas of other kinds
CONV-7     A-D  seam   -   -    keywords of input schemas
CONV-8     A-D  seam   -   -    header hints in schemas
CONV-9     A-D  seam   -   -    annotations of tools
CONV-10    A-D  seam   -   -    titles
CONV-11    A-D  seam   -   -    icons, descriptions, websites
CONV-12    A-D  seam   -   -    _meta of parts
CONV-13    A-D  seam   -   -    when something was modified
CONV-14    A-D  seam   -   -    audience and priority
CONV-15    A-D  seam   -   -    whether a tool runs as a task
CONV-16    A-D  seam   -   -    what results say of themselves
CONV-17    A-D  seam   -   -    results that ask for input
CONV-18    C-D  seam   -   -    elicitation by URL
CONV-19    C-D  seam   -   -    defaults in forms
CONV-20    C-D  seam   -   -    choices with titles
CONV-21    C-D  seam   -   -    choices without
CONV-22    C-D  seam   -   -    several choices
CONV-23    D    seam   -   -    answers with several choices
CONV-24    A-D  seam   -   -    tools in sampling
CONV-25    A-D  seam   -   -    lists of one block
CONV-26    A-D  seam   -   -    lists of several
CONV-27    A-D  seam   -   -    what was sampled
CONV-28    A-D  seam   -   -    the text of a progress report
CONV-29    A-D  seam   -   -    the context of a completion
CONV-30    A-D  seam   -   -    the capability of completion
CONV-31    A-D  seam   -   -    extensions
CONV-32    A-D  seam   -   -    the capability of tasks
CONV-33    A-D  seam   -   -    a missing resource
CONV-34    A-D  seam   -   -    a missing capability
CONV-35    A-D  seam   -   -    invalid arguments of tools
CONV-36    A-D  seam   -   -    discovery and initialize
CONV-37    A-D  seam   -   -    links in prompts
CONV-38    A-D  seam   -   -    listening
CONV-39    A-D  seam   -   -    log levels
CONV-40    A-D  seam   -   http cancellation over HTTP
CONV-41    A-D  seam   -   -    _meta of roots
CONV-42    A-D  seam   -   -    _meta of requests
CONV-43    A-D  seam   -   -    trace context
CONV-44    A-D  seam   -   -    ids
SEAM-1     A-   seam   -   -    handlers see the types of the latest revision
SEAM-2     A-   seam   -   -    what a revision lacks is not there for its peers
SEAM-3     A-   seam   -   -    capabilities follow from what is served
SEAM-4     A-   seam   -   -    nothing invalid goes out
SEAM-5     A-   seam   -   -    what comes in is read leniently
SEAM-6     A-   seam   -   -    two engines; the rest is data
SEAM-7     A-   seam   -   -    a new revision is a package, a row and a step
SEAM-8     E-   seam   -   -    the draft is spoken only when named
SEAM-9     A-   seam   -   -    exact types at any revision
SEAM-10    A-   seam   -   -    a proxy between any two revisions
AMB-1      E-   both   -   -    how listen streams end
AMB-2      A-D  both   -   -    an unsupported version in initialize
AMB-3      B-D  server -   http a GET may be refused
AMB-4      D-   server -   -    invalid arguments are results
AMB-5      C-D  server -   http which version headers are accepted
AMB-6      E-   server -   -    what is checked first
AMB-7      E-   server -   http the status of a handler's errors
AMB-8      E-   both   -   http headers of notifications
AMB-9      E-   server -   http notifications of extensions
AMB-10     B-D  server -   http how a cancelled POST ends
AMB-11     B-D  server -   http unknown ids of events
AMB-12     E-   server -   -    cache hints elsewhere
AMB-13     C-   both   -   -    which reserved prefixes
AMB-14     A-   server -   http the status of a wrong origin
AMB-15     B-   server -   http requests that say no version
AMB-16     B    both   -   -    arrays before there is a session
"""

LATER: Final[Mapping[str, str]] = {}
"""Requirements of features that are still to come, with the feature."""
NOT_OURS: Final[Mapping[str, str]] = {
    "MOD-13": "how long a process lives is decided by whoever enters and leaves `connect`",
    "LOG-4": "what is logged is what an author hands over",
    "ELIC-4": "what is asked for in a form is the author's choice",
    "ELIC-5": "showing and opening URLs is the host's; the runtime hands them to the callback and opens none",
    "HDR-10": "which arguments are secret only an author knows",
    "AUTH-20": "the runtime is no authorization server and redirects nobody",
    "SEC-7": "consent is asked for by whoever runs a proxy",
    "SK-7": "no _meta of the extension is sent",
    "SK-29": "the runtime acts on no front matter",
    "SK-34": "showing and asking is the host's; the runtime runs nothing of a skill",
    "ICON-1": "icons are loaded by hosts; the runtime loads none",
}
"""Requirements that no test of the runtime can check, with the reason."""


def _span(span: str) -> tuple[str, ...]:
    """The names that letters mean: `A-D` a range, `C-` all from one on, `AC` each of them, `ACD-` both."""
    letters = dict(zip("ABCDE", NAMED, strict=True))
    first, dash, last = span.partition("-")
    chosen = {letters[letter] for letter in first}
    if dash:
        start, end = ORDER.index(letters[first[-1]]), ORDER.index(letters[last]) if last else len(ORDER)
        chosen.update(ORDER[start : end + 1])
    return tuple(name for name in ORDER if name in chosen)


def _rows() -> dict[str, Requirement]:
    rows: dict[str, Requirement] = {}
    for line in _TABLE.strip().split("\n"):
        id_, span, who, level, transport, says = line.split(maxsplit=5)
        assert id_ not in rows
        assert transport in ("-", "http")
        rows[id_] = Requirement(id_, _span(span), who, level, says, transport == "http")
    return rows


REQUIREMENTS: Final[Mapping[str, Requirement]] = _rows()


# -- the plugin, called by conftest.py ----------------------------------------------------------------------

_ARGUMENTS: Final = ("revision", "row")
"""The arguments of a test that say at which revision it runs."""


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Run a marked test at each revision of its requirements, unless it says itself at which."""
    marks = list(metafunc.definition.iter_markers("req"))
    argument = next((name for name in _ARGUMENTS if name in metafunc.fixturenames), None)
    if not marks or argument is None:
        return
    for mark in metafunc.definition.iter_markers("parametrize"):
        given: Any = mark.args[0] if mark.args else mark.kwargs["argnames"]
        if argument in (given.split(",") if isinstance(given, str) else given):
            return
    wanted = {name for mark in marks for id_ in mark.args for name in REQUIREMENTS[id_].revisions}
    names = [name for name in NAMES if name in wanted]
    annotation = metafunc.function.__annotations__.get(argument)
    rows = names if annotation in ("str", str) else [revision_named(name) for name in names]
    metafunc.parametrize(argument, rows, ids=names)


def is_left_out(item: pytest.Item) -> bool:
    """Whether a test is about nothing but revisions that the table has no longer."""
    if not GONE:
        return False
    call: Any = getattr(item, "callspec", None)
    if call is not None and mentions_gone((call.params, call.id)):
        return True
    if call is not None and call.id == "NOTSET":  # what pytest calls a list of parameters that is empty
        return True
    if not (call is not None and any(name in repr(call.params) for name in NAMES)):
        function: Any = getattr(item, "function", None)
        if function is not None and names_gone(function):
            return True
    marks = list(item.iter_markers("req"))
    at = [name for mark in marks for name in mark.kwargs["at"]]
    ids = [id_ for mark in marks for id_ in mark.args]
    return (bool(at) and GONE.issuperset(at)) or (
        bool(ids) and not any(REQUIREMENTS[id_].revisions for id_ in ids)
    )


def refuse_skipped(item: pytest.Item) -> None:
    """A test that never runs checks nothing; one under a condition may have no parameters where that fails."""
    marked, skipped, conditional = (item.get_closest_marker(name) for name in ("req", "skip", "skipif"))
    if marked is not None and skipped is not None and conditional is None:
        raise pytest.UsageError(f"{item.nodeid} is marked with requirements and is always skipped")


def checks(item: pytest.Item) -> dict[str, object]:
    """What a test checks: requirements by id, each with the revisions it is checked at.

    `unsaid` are those for which the mark does not say at which revisions: neither does the test.
    """
    found: dict[str, list[str]] = {}
    unsaid: list[str] = []
    conditional = item.get_closest_marker("skipif") is not None
    marks = list(item.iter_markers("req"))
    for mark in marks:
        for id_ in cast("tuple[str, ...]", mark.args):
            span = REQUIREMENTS[id_].revisions
            ran = _ran_at(item, mark, span)
            if not ran:
                unsaid.append(id_)
            found.setdefault(id_, []).extend(name for name in span if name in ran and not conditional)
    name = item.nodeid.split("[")[0].removeprefix("tests/")
    return {"test": name, "marked": bool(marks), "unsaid": unsaid, "checks": found}


def _ran_at(item: pytest.Item, mark: pytest.Mark, span: tuple[str, ...]) -> tuple[str, ...]:
    """The revisions that a test counts for."""
    if mark.kwargs["everywhere"]:
        return span
    if mark.kwargs["at"]:
        return _counted(cast("tuple[str, ...]", mark.kwargs["at"]))
    call: Any = getattr(item, "callspec", None)
    params: Mapping[str, object] = {} if call is None else call.params
    for argument in _ARGUMENTS:
        if argument in params:
            value = params[argument]
            return _counted((value.name if isinstance(value, Revision) else str(value),))
    named = () if call is None else _counted(re.findall(r"20\d\d-\d\d-\d\d", call.id))
    return named or (span if len(span) == 1 or set(span) <= set(SINCE_E) else ())


def _counted(names: Sequence[str]) -> tuple[str, ...]:
    """What is tested at the latest revision counts for all that are like it."""
    everything = {*names, *(SINCE_E if E in names else ())}
    return tuple(name for name in NAMES if name in everything) or tuple(sorted(everything - GONE))
