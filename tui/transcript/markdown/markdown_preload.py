"""Imports what the first answer needs ahead of it."""

from __future__ import annotations


def import_markdown() -> None:
    """Import the Markdown parser and the highlighter; for a thread, while the answer is awaited."""
    from . import markdown_stream
    from .code_highlighter import prepare

    assert markdown_stream
    prepare(("python", "bash", "json"))
