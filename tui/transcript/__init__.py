"""The conversation on screen: Markdown to lines, one scroll view, cached strips."""
