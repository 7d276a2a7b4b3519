"""Bytes from outside: the schema folder and its pins, files, downloads, git objects and tables."""

from mcprev_codegen.inputs.download import (
    fetch as fetch,
    is_url as is_url,
    without_secrets as without_secrets,
)
from mcprev_codegen.inputs.files import (
    LIMIT as LIMIT,
    decoded as decoded,
    read_file as read_file,
    refuse_link as refuse_link,
    resolved as resolved,
    write_new as write_new,
    write_whole as write_whole,
)
from mcprev_codegen.inputs.folder import (
    SchemaFolder as SchemaFolder,
    read_once as read_once,
    schema_folder as schema_folder,
)
from mcprev_codegen.inputs.git import find_repository as find_repository
from mcprev_codegen.inputs.names_file import load_names as load_names, with_names as with_names
from mcprev_codegen.inputs.pins import (
    Pin as Pin,
    age as age,
    contract_path as contract_path,
    digest as digest,
    is_date as is_date,
    is_dated as is_dated,
    load_pins as load_pins,
    read_contract as read_contract,
    remove_pin as remove_pin,
    require_pin as require_pin,
    save_contract as save_contract,
    with_contract as with_contract,
)
from mcprev_codegen.inputs.tables import Table as Table, read_table as read_table
