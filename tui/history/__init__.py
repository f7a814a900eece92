"""Storage of chats in an append-only SQLite database, with a full-text index."""
