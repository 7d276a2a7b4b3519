"""A route for probes beside the endpoint, with mcprev."""

import sys

import mcprev

app = mcprev.App("demo", "1.0")


@app.route("/health")
def health() -> str:
    return "fine"


app.run_http(port=int(sys.argv[1]))
