"""A search for tools, with mcprev."""

import mcprev
from mcprev.transforms import tools_by_search

app = tools_by_search(mcprev.App("demo", "1.0"))


@app.tool
def send_invoice(customer: str) -> str:
    """Send a bill to a customer."""
    return f"billed {customer}"


app.run_stdio()
