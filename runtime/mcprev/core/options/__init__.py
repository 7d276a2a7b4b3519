"""Checks of the options of `Server`, `App` and `connect`: their names, and the kinds of their values."""
