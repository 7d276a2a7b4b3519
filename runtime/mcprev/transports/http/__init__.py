"""HTTP, both roles."""
