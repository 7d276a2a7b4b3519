"""What the modules with tables of a revision's package contain, as their templates print it."""
