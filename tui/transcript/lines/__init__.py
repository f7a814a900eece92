"""Rendered lines: line, block, wrapping, styles and folding."""
