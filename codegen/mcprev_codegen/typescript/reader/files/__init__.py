"""The files of a schema as modules: what they declare, import and export, and what a name in them means."""
