"""Markdown to lines, also while it grows."""
