"""A bridge in front of several servers, which clients see as one (SEAM-10, PAGE-1, SEC-5)."""
