"""Importers of other programs' chats: one module per program."""
