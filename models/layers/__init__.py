"""The transformer that all families share, and its layers."""
