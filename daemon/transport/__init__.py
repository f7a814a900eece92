"""Listening sockets, TLS, and the process at the other end of a connection."""
