"""Stores: what keeps the records that requests, sessions and processes share. Each module is loaded only when it is used."""
