"""What messages look like in bytes: pure functions and small buffers, no sockets, no clock, no revision names."""
