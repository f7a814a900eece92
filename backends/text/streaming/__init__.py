"""Incremental text: detokeniser, stop strings, tag and JSON scanners over pieces."""
