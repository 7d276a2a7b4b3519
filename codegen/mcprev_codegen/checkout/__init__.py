"""What people keep for a revision: pins, open decisions, step modules, and whether all is up to date.

All names of `decisions` are public.
"""

from mcprev_codegen.checkout.decisions import *  # noqa: F403
from mcprev_codegen.checkout.pinning import import_schema as import_schema
from mcprev_codegen.checkout.stamp import (
    input_digest as input_digest,
    other_versions as other_versions,
    up_to_date as up_to_date,
    write_stamp as write_stamp,
)
