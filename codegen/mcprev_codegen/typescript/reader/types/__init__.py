"""The types of a file: each expression as it is written, what operators compute, and the types of values."""
