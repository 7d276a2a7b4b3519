"""A tool with a page: clients with the extension `io.modelcontextprotocol/ui` show it, all others get text.

    python examples/clock.py                             # serve on stdin and stdout
    mcprev serve examples/clock.py:app --http --port 8000

The page talks to its host by `postMessage`, in JSON-RPC: it introduces itself, shows the results of `now` and calls `tick`.
"""

from datetime import UTC, datetime

import mcprev

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Clock</title>
<p><time id="time">…</time> <button id="again">Again</button></p>
<script>
  let last = 0;
  const waiting = new Map();
  const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
  const ask = (method, params) =>
    new Promise((done) => { waiting.set(++last, done); send({ id: last, method, params }); });
  const show = (result) => { document.getElementById("time").textContent = result.content[0].text; };
  addEventListener("message", ({ source, data }) => {
    if (source !== parent) return;
    if (data.method === "ui/notifications/tool-result") show(data.params);
    if (waiting.has(data.id) && data.result) waiting.get(data.id)(data.result);
  });
  document.getElementById("again").onclick = async () => show(await ask("tools/call", { name: "tick", arguments: {} }));
  ask("ui/initialize", {
    protocolVersion: "2026-01-26", appInfo: { name: "clock", version: "1.0" }, appCapabilities: {},
  }).then(() => send({ method: "ui/notifications/initialized", params: {} }));
</script>
</html>
"""

app = mcprev.App("clock", "1.0")
clock = app.ui("ui://clock", PAGE, title="Clock", prefers_border=True)


@app.tool(ui=clock)
def now() -> str:
    """Tell the time."""
    return datetime.now(UTC).strftime("%H:%M:%S")


@app.tool(ui=clock.app_only)
def tick() -> str:
    """Tell the time, for the page."""
    return now()


if __name__ == "__main__":
    app.run_stdio()
