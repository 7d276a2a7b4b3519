"""From `schema/` to `generated/`: one typed package for every revision, and what changed between two.

The modules are the steps, and data flows one way: revisions (pins) -> typescript -> ir -> descriptions ->
hoist -> overlay -> methods -> jsonschema -> models -> emit; `sources` runs the first half, `pipeline` all.
"""
