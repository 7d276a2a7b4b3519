"""Tools from the files of a folder, with mcprev."""

import sys

import mcprev

mcprev.App.from_folder(sys.argv[1], "demo", "1.0").run_stdio()
