"""Authorization over HTTP: what a server asks of its clients, and how a client gets it."""
