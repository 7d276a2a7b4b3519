"""What starts a server again when its source files change: which files it imported, and whether they are still the same."""
