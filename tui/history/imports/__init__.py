"""Imports chats from JSON exports and from databases of other programs."""
