"""Messages as bytes: pure functions and small buffers. No sockets, no clock, no revision names."""
