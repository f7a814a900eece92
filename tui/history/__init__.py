"""Where chats are kept: one SQLite database that is only ever added to, and its full-text index."""
