"""What can be said of a message at any revision: whether it is valid, and what other revisions make of it."""
