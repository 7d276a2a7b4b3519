"""The subcommands of `mcprev` that need the generator, one module each; `mcprev.cli` loads them by name."""
