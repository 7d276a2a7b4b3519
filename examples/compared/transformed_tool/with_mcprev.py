"""A tool made of another one, with mcprev."""

import mcprev
from mcprev.transforms import Argument, transform_tool

app = mcprev.App("demo", "1.0")


@app.tool
def search(q: str, shop: str) -> str:
    return f"{q} of {shop}"


arguments = {"q": Argument(name="text"), "shop": Argument(value="hats")}
transform_tool(app, "search", name="find_hat", arguments=arguments, keep=True)
app.run_stdio()
