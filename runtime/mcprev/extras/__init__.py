"""Add-ons of servers and clients: telemetry, rate limits, CORS, token verifiers, token stores, several servers as one.

Each module is loaded only when it is used, and no other module of the runtime imports it.
"""
