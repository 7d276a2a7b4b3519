"""Tools from the files of a folder, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

import sys

from fastmcp import FastMCP
from fastmcp.server.providers import FileSystemProvider

FastMCP("demo", providers=[FileSystemProvider(sys.argv[1])]).run(show_banner=False)
