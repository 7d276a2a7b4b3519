"""Methods in the types of one package: `client.exact(package)`, `ctx.exact(package)` and those of extensions."""
