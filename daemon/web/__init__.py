"""Requests to public addresses of the web."""
