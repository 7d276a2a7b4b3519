"""What people keep for a revision: pins, open decisions, step modules, and whether all is up to date."""

from mcprev_codegen.checkout.decisions import (
    Decision as Decision,
    checkout_lines as checkout_lines,
    decision_lines as decision_lines,
    decision_status as decision_status,
    missing_steps as missing_steps,
)
from mcprev_codegen.checkout.pinning import import_schema as import_schema
from mcprev_codegen.checkout.stamp import (
    input_digest as input_digest,
    other_versions as other_versions,
    up_to_date as up_to_date,
    write_stamp as write_stamp,
)
