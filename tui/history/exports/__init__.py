"""Exports a chat to a file: Markdown and HTML for reading, JSON complete."""
