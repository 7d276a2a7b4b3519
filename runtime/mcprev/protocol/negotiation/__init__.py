"""How a client finds the revision to speak: a plan of steps, pure functions."""
