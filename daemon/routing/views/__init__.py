"""Plain-text views of obfuscated, encoded, spelled-out or split values."""
