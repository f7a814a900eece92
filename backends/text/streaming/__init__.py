"""Incremental text processing: detokeniser, stop strings, tag and JSON scanners."""
