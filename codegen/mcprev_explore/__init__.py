"""A static site of revisions, which opens from `file:`: types, methods, lives, differences, rules, a map and a search.

    files = site_files(folder, [(revision, "where it came from"), ...], ladder)

`mcprev.cli.explore` calls this package by name and hands it the rules of the conversion ladder, which the runtime has.
"""

from mcprev_explore.building import (
    Built as Built,
    build_site as build_site,
    load_revisions as load_revisions,
    site_files as site_files,
)
from mcprev_explore.ladder import Ladder as Ladder
