"""The extension for skills, `io.modelcontextprotocol/skills` (SEP-2640): instructions with files that hosts load for models.

For servers: `App.add_skills`, `App.skill`. For clients: `Client.skills`, `Client.skill`, and `mcprev.extensions.skills.installing`
to put one into a folder of a host. What a skill says is of its server: show it as such, and run nothing of it unasked.
"""
