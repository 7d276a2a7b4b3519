"""How the two sides behave: negotiation, engines and sealed state, all sans-I/O with time passed in."""
