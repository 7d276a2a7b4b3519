"""The areas of a comparison, one module each: types, members, values, methods, constants."""
