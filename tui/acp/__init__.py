"""The chat as an agent for editors, by the Agent Client Protocol (ACP)."""
