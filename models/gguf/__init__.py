"""GGUF headers, read under strict bounds, and written."""
