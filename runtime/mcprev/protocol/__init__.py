"""The protocol as pure state machines: engines, negotiation, input requests, tasks. No I/O; the time is passed in."""
