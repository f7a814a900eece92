"""Detectors: each finds one family of what may be sensitive in a text."""
