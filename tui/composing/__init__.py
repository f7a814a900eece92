"""Helpers for writing a prompt: chips, mentions, completion, templates."""
