"""Detectors: each finds one family of sensitive content in a text."""
