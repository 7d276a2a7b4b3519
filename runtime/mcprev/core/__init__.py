"""Code shared by servers and clients: connections that drive an engine, method bindings, capabilities."""
