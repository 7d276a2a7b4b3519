"""What becomes a class or alias, in which module, and in which order: what is true for any target."""
