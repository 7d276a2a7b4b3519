"""What tests share: peers, clocks, names of revisions, runs of programs. tests/README.md says which module is for what."""
