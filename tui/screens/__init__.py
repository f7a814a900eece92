"""Screens over the chat: model picker and help."""
