"""Features of stored chats: search, encryption and resuming."""
