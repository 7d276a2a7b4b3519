"""What moves bytes: the only place with pipes and processes (STDIO-*)."""
