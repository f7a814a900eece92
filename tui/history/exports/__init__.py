"""A chat as a file: Markdown and HTML to read, JSON to take along whole."""
