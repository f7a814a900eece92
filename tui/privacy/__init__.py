"""The route of messages, and what the daemon finds in them."""
