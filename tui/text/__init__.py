"""Stateless text functions: terminal-safe text, numbers, relative dates and fuzzy matching."""
