"""The names in Python of the declarations of a revision: those that are chosen, and the checks of all."""
