"""Extensions of MCP: declared by both sides, with methods and types of their own."""
