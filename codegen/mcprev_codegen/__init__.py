"""The generator: reads `schema/` and writes one typed package per revision to `generated/`; also `mcprev diff`.

Data flows in one direction: revisions (pins) -> typescript -> ir -> descriptions -> hoist -> overlay -> methods ->
jsonschema -> models -> emit. `sources` runs the steps up to `methods`, `pipeline` runs all of them.
"""
