"""Capabilities of the chat, a module each; the screen passes them commands and events."""
