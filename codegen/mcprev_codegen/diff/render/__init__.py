"""One module for each output format; import the one that is needed."""
