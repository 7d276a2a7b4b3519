"""Everything that is known of one revision: its schema, methods, senders, and what only its prose says."""

from mcprev_codegen.facts.descriptions import DESCRIPTIONS_FILE as DESCRIPTIONS_FILE
from mcprev_codegen.facts.load import (
    dated as dated,
    load_bytes as load_bytes,
    load_custom as load_custom,
    load_file as load_file,
    load_pinned as load_pinned,
    load_revision as load_revision,
    load_versions as load_versions,
)
from mcprev_codegen.facts.methods import Method as Method
from mcprev_codegen.facts.overlay_file import OVERLAY_FILE as OVERLAY_FILE
from mcprev_codegen.facts.revision import Revision as Revision
from mcprev_codegen.facts.vocabulary import (
    ENVELOPE_MEMBERS as ENVELOPE_MEMBERS,
    LISTING_UNIONS as LISTING_UNIONS,
    VERSION_CONSTANT as VERSION_CONSTANT,
    Side as Side,
)
