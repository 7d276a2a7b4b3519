"""A server that passes on what its clients and another server say, each in its own revision (SEAM-10)."""
