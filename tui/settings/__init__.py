"""Settings of the chat: preferences, themes and folders."""
