"""What a person can set for the chat, and where it is kept: preferences, themes and folders."""
