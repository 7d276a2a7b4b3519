"""The process behind the page of `mcprev dev`: what it keeps of a session, and what the page asks it to do."""
