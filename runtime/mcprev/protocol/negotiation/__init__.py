"""The client's negotiation of a revision: a state machine of pure functions."""
