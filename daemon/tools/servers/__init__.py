"""MCP servers: their files, their connections, their tools."""
