"""Runs a server over HTTP as a process or task of its own, with uvicorn. Loaded only by `run_http` and `serve_http`."""
