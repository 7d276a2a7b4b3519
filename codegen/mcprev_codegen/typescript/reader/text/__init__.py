"""The text of a file: its syntax tree, the places of errors, and literals."""
