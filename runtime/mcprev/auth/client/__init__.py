"""OAuth of a client: flows as generators, tokens, stores."""
