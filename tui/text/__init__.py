"""Stateless text functions: terminal-safe text, numbers, relative dates, fuzzy matching."""
