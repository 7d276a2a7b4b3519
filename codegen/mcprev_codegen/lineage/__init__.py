"""Types over revisions: which ones are the same, since when, and what their objects need in a neighbour."""

from mcprev_codegen.lineage.deltas import conversion_deltas as conversion_deltas
from mcprev_codegen.lineage.histories import TypeHistory as TypeHistory, type_histories as type_histories
from mcprev_codegen.lineage.pairs import pairing as pairing, stated_renames as stated_renames
