"""The terminal chat, a client of the HTTP API."""
