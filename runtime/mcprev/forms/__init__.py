"""Forms of Python types and messages to a model: `ctx.elicit` and `ctx.sample`. Loaded only when a handler uses them."""
