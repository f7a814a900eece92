"""Listening sockets, TLS, and identification of connected processes."""
