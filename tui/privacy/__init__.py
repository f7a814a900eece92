"""Local scan of drafts for private data (a hint, no guarantee), and the route of messages."""
