"""Tools that call a FastAPI app of the same process, with FastMCP."""

# mypy: ignore-errors
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from fastapi import FastAPI
from fastmcp import FastMCP

web = FastAPI()


@web.get("/double", operation_id="double")
def double(number: int) -> int:
    return number * 2


FastMCP.from_fastapi(web).run(show_banner=False)
