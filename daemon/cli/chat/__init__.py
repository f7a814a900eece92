"""Commands for chatting: chat, run, and stored chats."""
