"""State that handlers keep between requests, in a store of records. Loaded only when a handler uses `ctx.session`."""
