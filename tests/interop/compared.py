"""The table of docs/compared.md: small programs that do the same with mcprev, the official Python SDK and FastMCP.

    PYTHONPATH=tests python -m interop.compared

writes it. `test_compared.py` runs the programs and holds the page against them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from house_figures import code_lines
from interop.peers import INTEROP

ROOT: Final = INTEROP.parent
PROGRAMS: Final = ROOT / "examples" / "compared"
PAGE: Final = ROOT / "docs" / "compared.md"
OURS: Final = "mcprev"
LIBRARIES: Final = {
    OURS: Path(sys.executable),
    "mcp": INTEROP / "2.3.0" / "bin" / "python",
    "fastmcp": INTEROP / "fastmcp-4.1.2" / "bin" / "python",
}
"""Each with the interpreter that has it."""
TITLES: Final = {
    "tool": "a tool with typed arguments",
    "tool_error": "an error that the model sees",
    "structured_output": "structured output",
    "image": "an image as the result of a tool",
    "tool_timeout": "a tool with a time limit",
    "tool_versions": "two versions of a tool",
    "resource_template": "a resource template",
    "prompt": "a prompt",
    "prompt_messages": "a prompt of several messages",
    "completion": "completion of an argument",
    "progress": "progress",
    "log": "a log message",
    "elicitation": "a question to the user",
    "sampling": "a question to the client's model",
    "roots": "the client's roots",
    "list_changes": "a tool that appears while the server runs, and its notification",
    "visibility": "tools that are out of service by their tag",
    "mount": "an app mounted in another app",
    "proxy": "a server in front of another one",
    "transformed_tool": "a tool made of another one, with a renamed and a fixed argument",
    "tool_search": "a search for tools, instead of a list of all of them",
    "resources_as_tools": "resources for clients that know only tools",
    "prompts_as_tools": "prompts for clients that know only tools",
    "tools_from_folder": "tools from the files of a folder",
    "openapi": "tools that call an HTTP API, from its OpenAPI document",
    "openapi_routes": "resources made of some operations of an OpenAPI document, and others left out",
    "from_fastapi": "tools that call a FastAPI app of the same process",
    "lifespan": "a lifespan: an object that is open while the server runs",
    "middleware": "middleware around tool calls",
    "ready_middleware": "middleware that logs and retries, ready to use",
    "caching": "results of a tool that are kept",
    "custom_route": "an HTTP route beside the endpoint",
    "dependency": "a dependency that clients do not see",
    "tool_page": "a page for the results of a tool (MCP Apps)",
    "bearer_auth": "bearer tokens over HTTP, with a verifier of one's own",
    "jwt_tokens": "JSON Web Tokens, verified with a public key",
    "static_tokens": "static tokens for development",
    "session_state": "state of a session",
    "provider_login": "a login with GitHub in front of a server",
    "client_stdio": "a client over stdio",
    "client_http": "a client over HTTP",
    "client_answers": "a client that answers questions and has roots",
    "several_servers": "several servers behind one client",
    "test_in_memory": "a test in memory",
}
"""The lines of the table, by the folders of their programs."""
SOURCE: Final = "https://github.com/mcprev/mcprev/tree/main/examples/compared"
HEAD: Final = f"""# Programs side by side

Each row is a small program, written with mcprev, with the official Python SDK (mcp 2.3.0) and with FastMCP 4.1.2. The
numbers are lines of code, without blank lines, comments and docstrings. The programs are in
[examples/compared]({SOURCE}). `make interop` runs all of them and checks their behaviour; `make test` runs
those with mcprev. A dash means that the library has no public API for the task.

| program | mcprev | mcp 2.3.0 | FastMCP 4.1.2 |
|---|---:|---:|---:|
"""


def program(line: str, library: str) -> Path:
    """The program of a line of the table."""
    return PROGRAMS / line / f"with_{library}.py"


def lines_of_code(line: str, library: str) -> int | None:
    """How many lines it has; None where there is none."""
    path = program(line, library)
    return code_lines(path.read_text(encoding="utf-8")) if path.exists() else None


def page() -> str:
    """The whole page."""
    rows = [[lines_of_code(line, library) for library in LIBRARIES] for line in TITLES]
    whole = [row for row in rows if None not in row]
    texts = [
        f"| [{title}]({SOURCE}/{line}) | {' | '.join('–' if n is None else str(n) for n in row)} |"
        for (line, title), row in zip(TITLES.items(), rows, strict=True)
    ]
    sums = [sum(column) for column in zip(*whole, strict=True)]
    total = f"| total of the programs that all three have | {' | '.join(map(str, sums))} |"
    return HEAD + "\n".join([*texts, total]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
