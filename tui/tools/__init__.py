"""The chat's tools: its tool host, rounds of calls and answers, and the file of MCP servers."""
