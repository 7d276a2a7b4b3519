"""`python -m mcprev`: the command."""

from mcprev.cli import main

if __name__ == "__main__":
    main(prog_name="mcprev")
