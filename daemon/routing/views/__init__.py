"""Plain-text views of encoded text, look-alike letters and tables."""
