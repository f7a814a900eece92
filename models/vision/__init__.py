"""Encoders that turn pictures into embeddings of a text model's tokens, one family a module."""
