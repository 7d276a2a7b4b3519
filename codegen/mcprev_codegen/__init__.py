"""The generator: reads `schema/` and writes one typed package per revision to `generated/`; also `mcprev diff`.

Each folder answers one question, and is used through its `__init__`: what can be read (`typescript`), what does a
revision say (`facts`), since when (`lineage`), what is written (`emit`, `build`), what changed (`diff`), what is left to
do (`checkout`). `docs/generator.md` tells the way of a schema.ts through them, and has recipes for changes.
"""
