"""A server in front of another one, with mcprev."""

import sys

import mcprev

mcprev.Bridge(mcprev.stdio(*sys.argv[1:])).run_stdio()
