"""Checks of JSON values against JSON Schemas, within bounds."""
