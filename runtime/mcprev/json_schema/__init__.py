"""Bounded validation of JSON values against JSON Schemas."""
