"""Commands that talk: chat, run, and what is kept of chats."""
