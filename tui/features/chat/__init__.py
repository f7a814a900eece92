"""Features of the conversation itself."""
