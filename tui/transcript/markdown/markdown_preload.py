"""Imports the Markdown modules ahead of the first answer."""

from __future__ import annotations


def import_markdown() -> None:
    """Import the Markdown parser and the highlighter; call it in a thread while waiting for the
    answer.
    """
    from . import markdown_stream
    from .code_highlighter import prepare

    assert markdown_stream
    prepare(("python", "bash", "json"))
