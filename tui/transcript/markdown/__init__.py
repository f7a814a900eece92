"""Renders Markdown to lines, including Markdown that is still growing."""
